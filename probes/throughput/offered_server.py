"""An iperf3 server offered to clients outside the mesh, and its substitute when busy.

Only the networks of [iperf3_server] reach it.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from ipaddress import ip_address, ip_network
from types import TracebackType
from typing import Self

from probes.contract import Deadline
from probes.packets.icmp.packet_filter import Instruction, attach
from probes.throughput.limits import Iperf3ServerLimits
from probes.transfers.iperf3.errors import ToolFailure
from probes.transfers.iperf3.process import MISSING, STOP_GRACE_S, limit_memory
from probes.transfers.source_filter import DatagramFilter, filter_listener, networks_program

# For iperf3 to start and listen, on a busy machine.
LISTEN_S = 10.0
# The maximum that iperf3 accepts from a client.
MAX_STREAMS = 128
# The first bytes of a client, which identify its test.
COOKIE_BYTES = 37
# The state that a busy iperf3 sends in answer (-1, ACCESS_DENIED in its iperf_api.h).
ACCESS_DENIED = b"\xff"
COOKIE_TIMEOUT_S = 1.0
LONGEST_LINE = 1000

CLIENT_LINE = re.compile(r"Accepted connection from (\S+), port \d+")
STREAM_LINE = re.compile(r"\[ *\d+\]\S* local \S+ port \d+ connected to ")
INTERVAL_LINE = re.compile(r"\[ *\d+\]\S* +(\d+\.?\d*)-(\d+\.?\d*) +sec +[\d.]+ \S+ +(\d+\.?\d*) Kbits/sec")
SUMMARY_LINE = re.compile(r"(- ){10}")


class OfferedServer:
    """A single-use iperf3 server on all addresses, within the context.

    Entering raises `ToolFailure` if it cannot listen, or filter its socket, without which it would answer everybody.
    """

    def __init__(self, offer: Iperf3ServerLimits, forbidden: Sequence[str]) -> None:
        self._offer = offer
        self._forbidden = tuple(forbidden)
        self._client_came = threading.Event()
        self._output_ended = threading.Event()
        self._last_line = ""
        self._summary = False
        self._exit = ExitStack()
        self.client: str | None = None
        self.bits = 0.0

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            process, output = self._start()
            undo.callback(_stop, process)
            reader = threading.Thread(target=self._read, args=(process, output), name="offered-iperf3", daemon=True)
            reader.start()
            program = networks_program(self._offer.clients, self._forbidden)
            if not filter_listener(program, process.pid, Deadline(LISTEN_S)):
                self._output_ended.wait(STOP_GRACE_S)
                raise ToolFailure(f"the iperf3 server for others cannot be filtered: {self._last_line or 'no output'}")
            self._exit = undo.pop_all()
        self._process = process
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()

    def wait_for_client(self, timeout_s: float) -> bool:
        """Wait for a `client` or the server's end; False at the timeout."""
        return self._client_came.wait(timeout_s)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the server's end, and all `bits`; False at the timeout."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
            # The last lines may still be unread, with the bits of the last interval.
            self._output_ended.wait(STOP_GRACE_S)
            return True
        return False

    def serves_admitted(self) -> bool:
        """Whether its client, which may precede the filter, is admitted."""
        client = ip_address((self.client or "").partition("%")[0])
        client = getattr(client, "ipv4_mapped", None) or client
        return any(client in ip_network(network) for network in self._offer.clients) and not any(
            client in ip_network(network) for network in self._forbidden
        )

    def _start(self) -> tuple[subprocess.Popen[bytes], int]:
        # The limit on the rate is checked at the end of each interval.
        arguments = ["iperf3", "-s", "-1", "-p", str(self._offer.port), "-i", "1", "-f", "k", "--forceflush"]
        if self._offer.max_bps is not None:
            arguments += ["--server-bitrate-limit", f"{self._offer.max_bps:.0f}"]
        # iperf3 flushes each line to a terminal; to a pipe it would tell of its client only after an interval.
        output, terminal = os.openpty()
        try:
            process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal, env={**os.environ, "LC_ALL": "C"}
            )
        except OSError as error:
            os.close(output)
            if isinstance(error, FileNotFoundError):
                raise ToolFailure(MISSING, permanent=True) from error
            raise ToolFailure(f"cannot start iperf3: {error.strerror}") from error
        finally:
            os.close(terminal)
        limit_memory(process, MAX_STREAMS)
        return process, output

    def _read(self, process: subprocess.Popen[bytes], output: int) -> None:
        """Follow iperf3's output; a terminal's end raises OSError."""
        with ExitStack() as filters, contextlib.suppress(OSError), open(output, errors="replace") as lines:
            while line := lines.readline(LONGEST_LINE):
                self._last_line = line.strip() or self._last_line
                if (accepted := CLIENT_LINE.match(line)) is not None:
                    self.client = accepted[1]
                    self._client_came.set()
                    filters.enter_context(DatagramFilter(accepted[1], process.pid, MAX_STREAMS))
                elif STREAM_LINE.match(line):
                    filters.close()
                self._count(line)
        self._client_came.set()
        self._output_ended.set()

    def _count(self, line: str) -> None:
        # Count an interval's bits, not the summary's.
        self._summary = self._summary or SUMMARY_LINE.match(line) is not None
        interval = INTERVAL_LINE.match(line)
        if interval is not None and not self._summary:
            begin_s, end_s, kbps = map(float, interval.groups())
            self.bits += (end_s - begin_s) * kbps * 1000


class BusyServer:
    """Declines clients of the offered networks as a busy iperf3, within the context."""

    def __init__(self, offer: Iperf3ServerLimits, forbidden: Sequence[str]) -> None:
        self._offer = offer
        self._program: list[Instruction] = networks_program(offer.clients, forbidden)
        self._listener: socket.socket | None = None

    def __enter__(self) -> Self:
        family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            # Attached before it listens, so that other hosts get no answer.
            attach(listener, self._program)
            listener.bind(("", self._offer.port))
            listener.listen()
        except OSError as error:
            listener.close()
            raise ToolFailure(f"cannot listen on port {self._offer.port}: {error.strerror}") from error
        self._listener = listener
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listener is not None:
            self._listener.close()

    def decline(self, timeout_s: float) -> None:
        """Decline the next client within the timeout."""
        if self._listener is None:
            return
        self._listener.settimeout(timeout_s)
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            with connection:
                connection.settimeout(COOKIE_TIMEOUT_S)
                # A connection that is closed with unread bytes is reset, and the client may not see the answer.
                connection.recv(COOKIE_BYTES, socket.MSG_WAITALL)
                connection.sendall(ACCESS_DENIED)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop iperf3 by SIGTERM, which informs its client, then SIGKILL."""
    process.terminate()
    try:
        process.wait(STOP_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

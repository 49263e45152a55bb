"""Measures how long after a pause a TCP rate is back (slow start after idle), by TCP_INFO.

Each retransmission timeout of pause halves the congestion window (RFC 2861, RFC 5681 section 4.1).
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from probes.contract import Deadline, Outcome, ProbeError
from probes.idle_restart.result import SETTING, IdleRestart
from probes.idle_restart.spec import DRAIN_S, IdleRestartSpec
from probes.packets.addresses import FAMILY
from probes.transfers.hosts.inventory import read_sysctls
from probes.transfers.socket_counters import ConnectionCounters, counters_of

# First bytes of a connection, so that tests and other services are not confused.
GREETING = b"soundings idle-restart 1\n"

BLOCK = bytes(65_536)
SAMPLE_S = 0.005
CONNECT_S = 5.0
# Share of the rate before the pause at which it is back.
BACK_RATIO = 0.9
# Least time over which a rate is taken; two round trips where those are longer.
RATE_OVER_S = 0.1
# Growth from the third to the last quarter of the first transfer from which its rate is not steady.
GREW = 1.25


@dataclass(frozen=True, slots=True)
class TransferSample:
    """Counters of a connection, in seconds from the start of its transfer."""

    at_s: float
    counters: ConnectionCounters


class IdleRestartFailure(ProbeError):
    """The far end could not be reached, or ended the connection."""


class NoTestCame(IdleRestartFailure):
    """No sender connected until the deadline."""


def measure(spec: IdleRestartSpec, address: str | None = None, source: str | None = None) -> IdleRestart:
    """Run both transfers; `address` replaces the spec's. Raises `ProbeError`."""
    greeting = _greeting(spec.one_time_key)
    own = None if source is None else (source, 0)
    setting = read_sysctls([SETTING]).get(SETTING)
    try:
        place = address or spec.address, spec.port
        with socket.create_connection(place, timeout=CONNECT_S, source_address=own) as sender:
            sender.sendall(greeting)
            _await_greeting(sender, greeting)
            sender.setblocking(False)
            first = _send(sender, spec.duration_s)
            _drain(sender)
            time.sleep(spec.pause_s)
            second = _send(sender, spec.duration_s)
    except OSError as error:
        reason = error.strerror or str(error)
        raise IdleRestartFailure(
            f"{spec.address} port {spec.port}: {reason}; is `idle-restart --listen` running there?",
            outcome=Outcome.REFUSED if isinstance(error, ConnectionRefusedError) else Outcome.TOOL_FAILURE,
        ) from error
    return evaluate(first, second, spec, setting)


def serve(port: int, deadline: Deadline, *, address: str = "", peer: str | None = None, key: str | None = None) -> int:
    """Take one test; return the bytes received. Raises `ProbeError`."""
    greeting = _greeting(key)
    with _listener(address, port) as listener:
        while not deadline.passed:
            listener.settimeout(max(0.01, deadline.remaining_s))
            with contextlib.suppress(TimeoutError):
                connection, (host, *_) = listener.accept()
                with connection:
                    if peer is None or host == peer:
                        received = _discard(connection, greeting, deadline)
                        if received is not None:
                            return received
    raise NoTestCame(f"no test came to port {port}")


def _listener(address: str, port: int) -> socket.socket:
    try:
        return socket.create_server((address, port), family=FAMILY[6] if ":" in address else FAMILY[4])
    except OSError as error:
        raise IdleRestartFailure(f"cannot listen on port {port}: {error.strerror or error}") from error


def evaluate(
    first: Sequence[TransferSample], second: Sequence[TransferSample], spec: IdleRestartSpec, setting: str | None
) -> IdleRestart:
    """Compare both transfers by their samples."""
    if len(first) < 8 or len(second) < 2:
        raise IdleRestartFailure("too few samples of the connection; give a longer --duration-s")
    last = first[-1].counters
    over_s = max(RATE_OVER_S, 2.0 * last.rtt_ms / 1e3)
    end_s = first[-1].at_s
    third, fourth = (_mean_bps(first, begin * end_s, (begin + 0.25) * end_s) for begin in (0.5, 0.75))
    return IdleRestart(
        before_bps=fourth,
        is_steady=0.0 < fourth <= GREW * third,
        # Read after the pause and before the first byte, at which the kernel reduces it.
        cwnd_before=second[0].counters.cwnd_segments,
        cwnd_after=second[1].counters.cwnd_segments,
        timeout_s=last.timeout_s,
        rtt_ms=last.rtt_ms,
        pause_s=spec.pause_s,
        duration_s=spec.duration_s,
        rise_s=_reached_s(first, BACK_RATIO * fourth, over_s),
        back_s=_reached_s(second, BACK_RATIO * fourth, over_s),
        setting=setting,
        sent_bytes=second[-1].counters.sent_bytes,
    )


def _send(sender: socket.socket, duration_s: float) -> list[TransferSample]:
    # Send as fast as possible; the first sample precedes the first byte.
    began = time.monotonic()
    samples = [TransferSample(0.0, counters_of(sender))]
    while (at_s := time.monotonic() - began) < duration_s:
        with contextlib.suppress(BlockingIOError):
            sender.send(BLOCK)
        if at_s - samples[-1].at_s >= SAMPLE_S or len(samples) == 1:
            samples.append(TransferSample(time.monotonic() - began, counters_of(sender)))
        select.select([], [sender], [], SAMPLE_S)
    return samples


def _drain(sender: socket.socket) -> None:
    """Wait until all data are acknowledged, before the pause begins."""
    deadline = Deadline(DRAIN_S)
    while counters_of(sender).outstanding_bytes > 0:
        if deadline.passed:
            raise IdleRestartFailure(f"the data were not acknowledged within {DRAIN_S:g} s")
        time.sleep(SAMPLE_S)


def _greeting(key: str | None) -> bytes:
    return GREETING if key is None else GREETING + hashlib.sha256(b"idle-restart" + key.encode()).hexdigest().encode()


def _await_greeting(sender: socket.socket, greeting: bytes) -> None:
    if sender.recv(len(greeting), socket.MSG_WAITALL) != greeting:
        raise IdleRestartFailure("another service listens there")


def _discard(connection: socket.socket, greeting: bytes, deadline: Deadline) -> int | None:
    """Read until the end; None if it is no test."""
    received, buffer = 0, bytearray(1 << 20)
    with contextlib.suppress(OSError):
        connection.settimeout(CONNECT_S)
        if not hmac.compare_digest(connection.recv(len(greeting), socket.MSG_WAITALL), greeting):
            return None
        connection.sendall(greeting)
        connection.settimeout(max(0.01, deadline.remaining_s))
        while size := connection.recv_into(buffer):
            received += size
    return received


def _mean_bps(samples: Sequence[TransferSample], begin_s: float, end_s: float) -> float:
    inside = [sample for sample in samples if begin_s <= sample.at_s <= end_s]
    if len(inside) < 2:
        return 0.0
    acknowledged = inside[-1].counters.acknowledged_bytes - inside[0].counters.acknowledged_bytes
    return 8.0 * acknowledged / (inside[-1].at_s - inside[0].at_s)


def _reached_s(samples: Sequence[TransferSample], rate_bps: float, over_s: float) -> float | None:
    """Start of the first `over_s` in which the rate was reached."""
    older = 0
    for sample in samples:
        while samples[older].at_s < sample.at_s - over_s:
            older += 1
        begin = samples[max(0, older - 1)]
        length_s = sample.at_s - begin.at_s
        acknowledged = sample.counters.acknowledged_bytes - begin.counters.acknowledged_bytes
        if length_s >= over_s and 8.0 * acknowledged >= rate_bps * length_s:
            return begin.at_s
    return None

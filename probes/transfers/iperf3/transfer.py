"""Throughput with iperf3: a transfer to a peer that runs a single-use server.

`run_client` takes a `ThroughputSpec` and returns a `ThroughputRun`; `serve` runs the server. A failed test has an
outcome with a detail and no throughput, never 0 bit/s.
"""

from __future__ import annotations

import logging
import math
import signal
import subprocess
import time
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address

import msgspec

from probes.contract import Deadline, NotPermitted, ProbeError
from probes.transfers import congestion_control, socket_buffers
from probes.transfers.address import is_local, resolve_address
from probes.transfers.capture.of_test import ThroughputCapture
from probes.transfers.hosts.spec import HostInventory, HostLoad, TcpMetrics
from probes.transfers.iperf3 import authentication
from probes.transfers.iperf3.authentication import Credentials
from probes.transfers.iperf3.document import Json, decode
from probes.transfers.iperf3.errors import ToolFailure
from probes.transfers.iperf3.process import count_sockets, output_of, running
from probes.transfers.iperf3.report import listening_failed, not_finished, peer_of, read_report, received_bytes
from probes.transfers.iperf3.sampling import ToolSampler
from probes.transfers.socket_counters import StreamAddress
from probes.transfers.source_filter import DatagramFilter, filter_listener, source_program
from probes.transfers.spec import CapturedHeaders, CpuUse, KernelCounts, ThroughputRun, ThroughputSpec

logger = logging.getLogger(__name__)

LISTEN_AGAIN_S = 0.5
CONNECT_TIMEOUT_MS = 3000
MAX_INTERVALS = 1000
# Of both ends' intervals in a report, which must leave room in the output that is read.
INTERVALS_BYTES = 24 * 2**20
# Of a stream in an interval of both ends' reports.
STREAM_BYTES = 1000
# The minimum that iperf3 accepts.
MIN_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that iperf3 reads or writes instead of memory (`-F`), with maximum size."""

    descriptor: int
    max_bytes: int

    @property
    def arguments(self) -> tuple[str, str]:
        return "-F", f"/proc/self/fd/{self.descriptor}"


def run_client(
    arguments: list[str],
    spec: ThroughputSpec,
    address: str,
    started_at: datetime,
    deadline: Deadline,
    credentials: Credentials,
    file: OpenFile | None = None,
    answer_s: float | None = None,
) -> ThroughputRun:
    """Run a client, and parse its report. Raises `ProbeError`.

    The server must answer within `answer_s`.
    """
    sends = spec.protocol == "tcp" and not spec.reverse
    streams = StreamAddress(address, spec.port) if sends else None
    with (
        _running(arguments, credentials, file, spec.streams) as process,
        ToolSampler(process.pid, streams, spec.streams, peer=address) as sampler,
    ):
        output = _client_output(process, deadline, answer_s, f"iperf3 to {address} port {spec.port}")
    try:
        run = read_report(output, spec, address, started_at)
    except NotPermitted as error:
        if spec.one_time_key is not None and not credentials.arguments:
            raise NotPermitted(
                f"{error}; this host's iperf3 {authentication.missing_reason(spec.peer_iperf3)}"
            ) from error
        raise
    return _with_samples(run, sampler, spec)


@dataclass(frozen=True, slots=True)
class ServerStatistics:
    """Samples taken beside a running server, host data from before, and the requested capture."""

    wanted_ratio: float | None = None
    kernel: KernelCounts | None = None  # set if the server sent the data
    inventory: HostInventory | None = None
    metrics: TcpMetrics | None = None
    load: HostLoad | None = None
    capture: CapturedHeaders | None = None


def serve(spec: ThroughputSpec, deadline: Deadline, file: OpenFile | None = None) -> ServerStatistics | None:
    """Serve a single test; None if no client connected.

    The client must connect from `spec.source` or, if None, hold the one-time key; after other clients the server
    restarts until the deadline. Raises `ProbeError` if it could never listen.
    """
    address = resolve_address(spec.address, spec.family)
    congestion_control.check(spec.congestion_control)
    check_buffers(spec)
    peer = None if spec.source is None else resolve_address(spec.source, spec.family)
    last_error: ProbeError | None = None
    with authentication.server_credentials(spec.one_time_key, spec.peer_iperf3) as credentials:
        while not deadline.passed:
            try:
                report, statistics = _serve_once(spec, address, peer, deadline, credentials, file)
            except ToolFailure as error:
                if error.permanent:
                    raise
                last_error = error
            else:
                last_error = listening_failed(report)
                if _served_peer(report, peer):
                    return statistics
            time.sleep(min(LISTEN_AGAIN_S, deadline.remaining_s))
    if last_error is not None:
        raise last_error
    return None


def check_buffers(spec: ThroughputSpec) -> None:
    """Check this host's socket buffer limit. Raises `ToolFailure`."""
    reason = socket_buffers.refusal(spec.window_bytes)
    if reason is not None:
        raise ToolFailure(reason, permanent=True)


def client_arguments(spec: ThroughputSpec, address: str) -> list[str]:
    arguments = ["iperf3", f"-{spec.family}", "-J", "--get-server-output", "-i", interval(spec)]
    arguments += ["-c", address, "-p", str(spec.port), "--connect-timeout", str(CONNECT_TIMEOUT_MS)]
    arguments += ["-t", str(spec.duration_s), "-O", str(spec.omit_s), "-P", str(spec.streams)]
    options = {
        "-B": spec.source if spec.source is not None and is_local(spec.source) else None,
        # iperf3 applies limit and pacing to each stream; the plan gives their sum.
        "-b": None if spec.rate_bps is None else spec.rate_bps // spec.streams,
        "-w": spec.window_bytes,
        "-C": spec.congestion_control,
        "-M": spec.mss_bytes,
        "-l": spec.block_bytes if isinstance(spec.block_bytes, int) else None,
        "--fq-rate": spec.pacing_bps // spec.streams if isinstance(spec.pacing_bps, int) else None,
    }
    for name, value in options.items():
        arguments += [] if value is None else [name, str(value)]
    arguments += ["-Z"] * (spec.zero_copy is True)
    return arguments + ["-u"] * (spec.protocol == "udp") + ["-R"] * spec.reverse


def server_arguments(spec: ThroughputSpec, address: str) -> list[str]:
    """Arguments for a single test; behind NAT on all local addresses."""
    arguments = ["iperf3", f"-{spec.family}", "-J", "-i", interval(spec), "-s", "-1", "-p", str(spec.port)]
    if is_local(address):
        arguments += ["-B", address]
    return arguments


def interval(spec: ThroughputSpec) -> str:
    intervals = min(MAX_INTERVALS, INTERVALS_BYTES // (STREAM_BYTES * (spec.streams + 1)))
    interval_s = math.ceil(10 * (spec.duration_s + spec.omit_s) / intervals) / 10
    return f"{max(MIN_INTERVAL_S, interval_s):g}"


def _serve_once(
    spec: ThroughputSpec,
    address: str,
    peer: str | None,
    deadline: Deadline,
    credentials: Credentials,
    file: OpenFile | None,
) -> tuple[Json, ServerStatistics]:
    sends_to = StreamAddress(peer, spec.port, from_port=True) if peer is not None and spec.reverse else None
    with (
        _running(server_arguments(spec, address), credentials, file, spec.streams) as process,
        ToolSampler(
            process.pid, sends_to if spec.protocol == "tcp" else None, spec.streams, peer=peer, waits=True
        ) as sampler,
        ThroughputCapture(spec, peer) as capture,
        ExitStack() as filters,
    ):
        if peer is not None:
            filter_listener(source_program(peer), process.pid, deadline)
            if spec.protocol == "udp":
                filters.enter_context(DatagramFilter(peer, process.pid, spec.streams))
        output, _ = output_of(process, deadline)
    if file is not None and process.returncode == -signal.SIGXFSZ:
        raise ToolFailure(f"iperf3 server: received more than the {file.max_bytes:,} bytes of the file", permanent=True)
    statistics = ServerStatistics(
        sampler.wanted_ratio(), sampler.kernel_counts(), load=sampler.host_load(), capture=capture.result
    )
    try:
        return decode(output), statistics
    except ToolFailure:
        return {}, statistics


def _served_peer(report: Json, peer: str | None) -> bool:
    if received_bytes(report) <= 0:
        return False
    client = peer_of(report)
    if peer is None or client is None or ip_address(client) == ip_address(peer):
        return True
    logger.warning("iperf3 server: ignored a test from %s: expected %s", client, peer)
    return False


def _running(
    arguments: list[str], credentials: Credentials, file: OpenFile | None, streams: int
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    return running(
        [*arguments, *credentials.arguments, *(() if file is None else file.arguments)],
        credentials.environment,
        streams=streams,
        descriptors=() if file is None else (file.descriptor,),
        max_file_bytes=None if file is None else file.max_bytes,
    )


def _client_output(process: subprocess.Popen[bytes], deadline: Deadline, answer_s: float | None, where: str) -> bytes:
    until = None if answer_s is None else Deadline(answer_s)

    def is_hung() -> bool:
        # The control connection is one; the streams come when the server has answered on it.
        return until is not None and until.passed and count_sockets(process.pid) < 2

    output, has_ended = output_of(process, deadline, is_hung)
    if not has_ended:
        if not deadline.passed:
            raise ToolFailure(f"{where}: no answer within {answer_s:.1f} s")
        raise not_finished(output)
    if process.returncode < 0:
        raise ToolFailure(f"iperf3 was killed by {signal.Signals(-process.returncode).name}")
    return output


def _with_samples(run: ThroughputRun, sampler: ToolSampler, spec: ThroughputSpec) -> ThroughputRun:
    """Add sampled statistics; the client sends unless `reverse` is set."""
    transfer = run.transfer
    if transfer is None:
        return run
    end = "receiver_cpu" if run.reverse else "sender_cpu"
    use: CpuUse | None = getattr(transfer, end)
    if use is not None:
        transfer = msgspec.structs.replace(
            transfer, **{end: msgspec.structs.replace(use, wanted_ratio=sampler.wanted_ratio())}
        )
    load = {"receiver_load" if run.reverse else "sender_load": sampler.host_load()}
    transfer = msgspec.structs.replace(
        transfer, kernel=sampler.kernel_counts(), began_at=sampler.began_at(), window_bytes=spec.window_bytes, **load
    )
    return msgspec.structs.replace(run, transfer=transfer)

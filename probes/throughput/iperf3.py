"""Throughput with iperf3: one TCP transfer to a peer that runs a single-use server, its report read.

`measure` and `Iperf3Probe` take a `ThroughputSpec` and give a `ThroughputRun`; `serve` is the receiving end. A test
that did not work ends in an outcome with a detail and no throughput, never in 0 bit/s. When both ends run, and for
how long the server listens, is decided by who calls (`probes.site.slots`).
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from datetime import UTC, datetime
from typing import Any

import msgspec

from probes.contract import Deadline, NoRoute, NotPermitted, Outcome, ProbeError
from probes.throughput.address import is_local, resolve
from probes.throughput.spec import Interval, ThroughputRun, ThroughputSpec

MISSING = "iperf3 is not installed; install it (Debian, Ubuntu: apt-get install iperf3)"
STOP_GRACE_S = 2.0
LISTEN_AGAIN_S = 0.5

# What iperf3 writes in "error" (iperf_error.c, and strerror of the system call behind it) and what it means.
OUTCOME_OF_ERROR = (
    ("server is busy", Outcome.BUSY),
    ("connection refused", Outcome.REFUSED),
    ("network is unreachable", Outcome.NO_ROUTE),
    ("no route to host", Outcome.NO_ROUTE),
    ("host is unreachable", Outcome.NO_ROUTE),
    ("permission denied", Outcome.NOT_PERMITTED),
    ("operation not permitted", Outcome.NOT_PERMITTED),
)


class TestRefused(ProbeError):
    outcome = Outcome.REFUSED


class ServerBusy(ProbeError):
    outcome = Outcome.BUSY


class ToolFailure(ProbeError):
    outcome = Outcome.TOOL_FAILURE


ERROR_OF_OUTCOME: dict[Outcome, type[ProbeError]] = {
    Outcome.BUSY: ServerBusy,
    Outcome.REFUSED: TestRefused,
    Outcome.NO_ROUTE: NoRoute,
    Outcome.NOT_PERMITTED: NotPermitted,
}


class Iperf3Probe:
    """The probe of kind `throughput`."""

    def can_run(self, spec: ThroughputSpec) -> list[str]:
        """Reasons why `spec` cannot be measured from here, each with its mend; empty if it can."""
        reasons = [] if shutil.which("iperf3") else [MISSING]
        try:
            resolve(spec.address, spec.family)
        except ProbeError as error:
            reasons.append(str(error))
        return reasons

    def run(self, spec: ThroughputSpec, deadline: Deadline) -> ThroughputRun:
        """Send for `spec.duration_s` seconds to the server at `spec.address`. Raises `ProbeError`."""
        started_at = datetime.now(UTC)
        address = resolve(spec.address, spec.family)
        report = _run(client_arguments(spec, address), deadline)
        return read_report(report, spec, address, started_at)


def measure(spec: ThroughputSpec, deadline: Deadline) -> ThroughputRun:
    """As `Iperf3Probe.run`, but a test that could not be made comes back as a run with its outcome."""
    started_at = datetime.now(UTC)
    try:
        return Iperf3Probe().run(spec, deadline)
    except ProbeError as error:
        return not_measured(spec, started_at, error.outcome, str(error))


def not_measured(spec: ThroughputSpec, started_at: datetime, outcome: Outcome, detail: str) -> ThroughputRun:
    """The run of a test that ended in `outcome`, without any figure."""
    return ThroughputRun(
        target=spec.address,
        address=None,
        family=spec.family,
        started_at=started_at,
        outcome=outcome,
        streams=spec.streams,
        detail=detail,
    )


def serve(spec: ThroughputSpec, deadline: Deadline) -> bool:
    """Listen on `spec.address` and `spec.port` for one test; True once it was served, False if nobody came in time.

    A server that ends without having carried data (a port scan, a peer that died) is started again. Raises `ProbeError`
    if it could not listen at all until the deadline.
    """
    address = resolve(spec.address, spec.family)
    trouble: ProbeError | None = None
    while not deadline.passed:
        try:
            report = _run(server_arguments(spec, address), deadline, ending_is_failure=False)
        except ToolFailure as error:
            if error.permanent:
                raise
            trouble = error
        else:
            trouble = _listening_failed(report)
            if _received_bytes(report) > 0:
                return True
        time.sleep(min(LISTEN_AGAIN_S, deadline.remaining_s))
    if trouble is not None:
        raise trouble
    return False


def client_arguments(spec: ThroughputSpec, address: str) -> list[str]:
    """The command of the sending end."""
    arguments = ["iperf3", f"-{spec.family}", "-J", "-c", address, "-p", str(spec.port)]
    arguments += ["-t", str(spec.duration_s), "-O", str(spec.omit_s), "-P", str(spec.streams)]
    if spec.source is not None and is_local(spec.source):
        arguments += ["-B", spec.source]
    return arguments


def server_arguments(spec: ThroughputSpec, address: str) -> list[str]:
    """The command of the receiving end, for one test. Behind a translated address it listens on all of its own."""
    arguments = ["iperf3", f"-{spec.family}", "-J", "-s", "-1", "-p", str(spec.port)]
    if is_local(address):
        arguments += ["-B", address]
    return arguments


def _run(arguments: list[str], deadline: Deadline, *, ending_is_failure: bool = True) -> bytes:
    """Run iperf3 until it ends or the deadline passes; what it wrote. Raises `ToolFailure`."""
    try:
        process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except FileNotFoundError as error:
        raise ToolFailure(MISSING, permanent=True) from error
    except OSError as error:
        raise ToolFailure(f"cannot start iperf3: {error.strerror}") from error
    try:
        output, _ = process.communicate(timeout=deadline.remaining_s)
    except subprocess.TimeoutExpired:
        output = _end(process)
        if ending_is_failure:
            raise ToolFailure("iperf3 had not ended when the time of the test was over") from None
    if process.returncode < 0 and ending_is_failure:
        raise ToolFailure(f"iperf3 was ended by {signal.Signals(-process.returncode).name}")
    return output


def _end(process: subprocess.Popen[bytes]) -> bytes:
    """Stop iperf3, kindly first; what it wrote."""
    process.terminate()
    try:
        output, _ = process.communicate(timeout=STOP_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
    return output


def read_report(output: bytes, spec: ThroughputSpec, address: str, started_at: datetime) -> ThroughputRun:
    """The run that iperf3's JSON tells of. Raises `ProbeError` when it tells of a failure, or is cut off."""
    report = _decode(output)
    if "error" in report:
        raise _as_error(str(report["error"]), address, spec.port)
    try:
        return _as_run(report, spec, address, started_at)
    except (KeyError, TypeError, IndexError) as error:
        raise ToolFailure(f"iperf3's report is not complete: {error!r} is missing") from error


def _decode(output: bytes) -> dict[str, Any]:
    """The report as a dict. Lines before it (warnings go to the same stream) are passed over."""
    start = output.find(b"{")
    try:
        return msgspec.json.decode(output[max(start, 0) :], type=dict[str, Any])
    except msgspec.DecodeError as error:
        last = output.decode(errors="replace").strip().splitlines()[-1:]
        raise ToolFailure(f"iperf3's report is cut off or not JSON ({error}); it ends: {''.join(last)!r}") from error


def _as_error(message: str, address: str, port: int) -> ProbeError:
    lowered = message.lower()
    outcome = next((found for text, found in OUTCOME_OF_ERROR if text in lowered), Outcome.TOOL_FAILURE)
    return ERROR_OF_OUTCOME.get(outcome, ToolFailure)(f"iperf3 to {address} port {port}: {message}")


def _as_run(report: dict[str, Any], spec: ThroughputSpec, address: str, started_at: datetime) -> ThroughputRun:
    end = report["end"]
    sent, received = end["sum_sent"], end["sum_received"]
    if received["bytes"] == 0:
        raise ToolFailure(f"iperf3 to {address} port {spec.port}: connected, but no data arrived")
    return ThroughputRun(
        target=spec.address,
        address=address,
        family=spec.family,
        started_at=started_at,
        outcome=Outcome.MEASURED,
        streams=report["start"]["test_start"]["num_streams"],
        duration_s=received["seconds"],
        throughput_bps=received["bits_per_second"],
        sent_bytes=sent["bytes"],
        received_bytes=received["bytes"],
        retransmits=sent.get("retransmits"),
        rtt_mean_ms=_mean_rtt_ms([stream["sender"].get("mean_rtt") for stream in end["streams"]]),
        congestion_control=end.get("sender_tcp_congestion"),
        tool=report["start"]["version"],
        intervals=_intervals(report["intervals"]),
    )


def _intervals(reported: list[dict[str, Any]]) -> tuple[Interval, ...]:
    """Each interval summed over its streams. iperf3 counts from 0 again after the omitted part; we do not."""
    omitted_s = max((one["sum"]["end"] for one in reported if one["sum"]["omitted"]), default=0.0)
    return tuple(_interval(one, 0.0 if one["sum"]["omitted"] else omitted_s) for one in reported)


def _interval(reported: dict[str, Any], offset_s: float) -> Interval:
    total, streams = reported["sum"], reported["streams"]
    windows = [stream["snd_cwnd"] for stream in streams if "snd_cwnd" in stream]
    return Interval(
        start_s=total["start"] + offset_s,
        end_s=total["end"] + offset_s,
        transferred_bytes=total["bytes"],
        throughput_bps=total["bits_per_second"],
        retransmits=total.get("retransmits"),
        cwnd_bytes=sum(windows) if windows else None,
        rtt_ms=_mean_rtt_ms([stream.get("rtt") for stream in streams]),
        omitted=total["omitted"],
    )


def _mean_rtt_ms(rtts_us: list[int | None]) -> float | None:
    """Mean over streams of what TCP_INFO says, microseconds in. iperf3 writes 0 where the system has no TCP_INFO."""
    known = [rtt for rtt in rtts_us if rtt is not None and rtt > 0]
    return sum(known) / len(known) / 1000 if known else None


def _received_bytes(server_report: bytes) -> int:
    """Bytes that a server's test carried; 0 when it had none."""
    try:
        received: int = _decode(server_report)["end"]["sum_received"]["bytes"]
    except (ToolFailure, KeyError):
        return 0
    return received


def _listening_failed(server_report: bytes) -> ProbeError | None:
    """The error of a server that could not listen; None for every other end."""
    try:
        message = str(_decode(server_report).get("error", ""))
    except ToolFailure:
        return None
    return ToolFailure(f"iperf3 server: {message}") if "listener" in message else None

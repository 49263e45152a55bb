"""iperf3's report of a test, read: the JSON that its client writes, with the server's part in it where that was had.

In: the bytes that iperf3 wrote (versions 3.1 to 3.22). Out: a `ThroughputRun` with its `Transfer`, or a `ProbeError`:
a report of a failure, or one that is cut off, has no throughput, and never 0 bit/s. Nothing is run here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from probes.contract import NoRoute, NotPermitted, Outcome, ProbeError
from probes.throughput.spec import (
    CpuUse,
    Protocol,
    ReceivedIntervals,
    SentIntervals,
    ThroughputRun,
    ThroughputSpec,
    Transfer,
    UdpCounts,
)

Json = dict[str, Any]

# What iperf3 writes in "error" (iperf_error.c, and strerror of the system call behind it) and what it means.
OUTCOME_OF_ERROR = (
    ("server is busy", Outcome.BUSY),
    ("connection refused", Outcome.REFUSED),
    ("unable to connect to server.*connection timed out", Outcome.REFUSED),
    # What 3.9 says, whatever the reason, when there is no connection to send on.
    ("unable to send control message: bad file descriptor", Outcome.REFUSED),
    ("network is unreachable", Outcome.NO_ROUTE),
    ("no route to host", Outcome.NO_ROUTE),
    ("host is unreachable", Outcome.NO_ROUTE),
    ("authorization failed", Outcome.NOT_PERMITTED),
    ("permission denied", Outcome.NOT_PERMITTED),
    ("operation not permitted", Outcome.NOT_PERMITTED),
)


SAID_ERROR = re.compile(r"^iperf3: (?:parameter )?error - (.+)$", re.MULTILINE)
CLOSED_EARLY = "control socket has closed unexpectedly"
WRONG_KEY = "before the test began; a server of 3.22 ends so where the one-time key is wrong"


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
MOST_PACKETS = 2**53
"""More than any test sends."""
BESIDE_INTERVALS = 2
"""Times the datagrams in the sender's intervals, of which the last may be missing: no more were sent."""


def read_report(output: bytes, spec: ThroughputSpec, address: str, started_at: datetime) -> ThroughputRun:
    """The run that a client's JSON tells of. Raises `ProbeError` when it tells of a failure, or is cut off."""
    report = decode(output)
    if "error" in report:
        message = str(report["error"])
        if message == CLOSED_EARLY and spec.one_time_key is not None and "test_start" not in report.get("start", {}):
            raise NotPermitted(f"iperf3 to {address} port {spec.port}: {message} {WRONG_KEY}")
        raise _as_error(message, address, spec.port)
    try:
        return _as_run(report, spec, address, started_at)
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise ToolFailure(f"iperf3's report is not complete: {error!r} is missing") from error


def decode(output: bytes) -> Json:
    """A report as a dict. Lines around it (warnings go to the same stream) are passed over, but for an error that is
    not in the report itself, as up to version 3.9. Raises `ToolFailure`."""
    start, end = max(output.find(b"{"), 0), output.rfind(b"}") + 1
    said = SAID_ERROR.search((output[:start] + output[end:]).decode(errors="replace"))
    try:
        report = msgspec.json.decode(output[start:end], type=Json)
    except msgspec.DecodeError as error:
        last = output.decode(errors="replace").strip().splitlines()[-1:]
        told = f"iperf3: {said[1]}" if said else f"it ends: {''.join(last)!r}"
        raise ToolFailure(f"iperf3's report is cut off or not JSON ({error}); {told}") from error
    return report if said is None else {"error": said[1], **report}


def progress(output: bytes) -> str:
    """How far a client had come that was ended, in words."""
    try:
        intervals = decode(output).get("intervals", [])
    except ToolFailure:
        intervals = []
    gone_bytes = sum(one["sum"]["bytes"] for one in intervals)
    return f"{gone_bytes:,} bytes had gone" if gone_bytes else "no data had gone"


def received_bytes(server_report: Json) -> int:
    """Bytes that a server's test carried, in whichever direction; 0 when it had none."""
    sums = server_report.get("end", {})
    return max((int(sums.get(name, {}).get("bytes", 0)) for name in ("sum_received", "sum_sent")), default=0)


def peer_of(server_report: Json) -> str | None:
    """The address from which a server was asked for its test; None where nobody asked."""
    peer = server_report.get("start", {}).get("accepted_connection", {}).get("host")
    return None if peer is None else str(peer).removeprefix("::ffff:")


def listening_failed(server_report: Json) -> ProbeError | None:
    """The error of a server that could not listen; None for every other end."""
    message = str(server_report.get("error", ""))
    return ToolFailure(f"iperf3 server: {message}") if "listener" in message else None


def _as_error(message: str, address: str, port: int) -> ProbeError:
    lowered = message.lower()
    outcome = next((found for text, found in OUTCOME_OF_ERROR if re.search(text, lowered)), Outcome.TOOL_FAILURE)
    return ERROR_OF_OUTCOME.get(outcome, ToolFailure)(f"iperf3 to {address} port {port}: {message}")


def _as_run(report: Json, spec: ThroughputSpec, address: str, started_at: datetime) -> ThroughputRun:
    started, end = report["start"]["test_start"], report["end"]
    protocol: Protocol = "udp" if started["protocol"] == "UDP" else "tcp"
    sent, received = _sums(end, started, protocol)
    if received["bytes"] <= 0:
        raise ToolFailure(f"iperf3 to {address} port {spec.port}: connected, but no data arrived")
    told_by = report.get("server_output_json", {}).get("end", end) if started["reverse"] else end
    return ThroughputRun(
        target=spec.address,
        address=address,
        family=spec.family,
        started_at=started_at,
        outcome=Outcome.MEASURED,
        protocol=protocol,
        reverse=bool(started["reverse"]),
        streams=started["num_streams"],
        asked_bps=None if spec.rate_bps is None else float(spec.rate_bps),
        duration_s=received["seconds"],
        throughput_bps=received["bits_per_second"],
        sent_bytes=sent["bytes"],
        received_bytes=received["bytes"],
        retransmits=sent.get("retransmits"),
        rtt_mean_ms=_mean_ms(stream.get("sender", {}).get("mean_rtt") for stream in told_by.get("streams", [])),
        congestion_control=end.get("sender_tcp_congestion"),
        tool=report["start"]["version"],
        transfer=read_transfer(report),
    )


def _sums(end: Json, started: Json, protocol: Protocol) -> tuple[Json, Json]:
    """What was sent and what was received of the whole test.

    For UDP some versions have only one sum, that of the sender with the receiver's losses in it; what arrived then is
    the datagrams that did, which are all of one size.
    """
    if "sum_received" in end:
        return end["sum_sent"], end["sum_received"]
    if protocol == "tcp":
        raise KeyError("sum_received")
    total = end["sum"]
    arrived_bytes = (total["packets"] - total["lost_packets"]) * started["blksize"]
    received = {
        "bytes": arrived_bytes,
        "seconds": total["seconds"],
        "bits_per_second": arrived_bytes * 8 / total["seconds"] if total["seconds"] > 0 else 0.0,
    }
    return total, received


def read_transfer(report: Json) -> Transfer:
    """What a client's report tells of the intervals and of both ends. With `reverse` the server was the sender."""
    end, reverse = report["end"], bool(report["start"]["test_start"]["reverse"])
    own, other = report["intervals"], report.get("server_output_json", {}).get("intervals", [])
    sent, received = (other, own) if reverse else (own, other)
    cpu = end.get("cpu_utilization_percent")
    ends = [None, None] if cpu is None else [_cpu_use(cpu, "host"), _cpu_use(cpu, "remote")]
    sender_cpu, receiver_cpu = reversed(ends) if reverse else ends
    sent_intervals = _sent(sent)
    return Transfer(
        sent=sent_intervals,
        received=_received(received),
        omitted_s=max((one["sum"]["end"] for one in own if one["sum"]["omitted"]), default=0.0),
        mss_bytes=report["start"].get("tcp_mss_default") or report["start"].get("tcp_mss"),
        sender_cpu=sender_cpu,
        receiver_cpu=receiver_cpu,
        udp=_udp(report, reverse, sent_intervals),
    )


def _sent(intervals: list[Json]) -> SentIntervals | None:
    if not intervals:
        return None
    streams = [one["streams"] for one in intervals]
    return SentIntervals(
        end_s=_ends_s(intervals),
        sent_bytes=tuple(one["sum"]["bytes"] for one in intervals),
        retransmits=_summed(streams, "retransmits"),
        cwnd_bytes=_summed(streams, "snd_cwnd"),
        peer_window_bytes=_summed(streams, "snd_wnd"),
        rtt_ms=_averaged_ms(streams, "rtt"),
        rtt_variation_ms=_averaged_ms(streams, "rttvar"),
        path_mtu_bytes=_least(streams, "pmtu"),
        packets=_summed(streams, "packets"),
    )


def _received(intervals: list[Json]) -> ReceivedIntervals | None:
    if not intervals:
        return None
    streams = [one["streams"] for one in intervals]
    return ReceivedIntervals(
        end_s=_ends_s(intervals),
        received_bytes=tuple(one["sum"]["bytes"] for one in intervals),
        packets=_summed(streams, "packets"),
        lost_packets=_summed(streams, "lost_packets"),
        jitter_ms=_averaged(streams, "jitter_ms"),
    )


def _ends_s(intervals: list[Json]) -> tuple[float, ...]:
    """iperf3 counts from 0 again after the omitted part; we do not."""
    omitted_s = max((one["sum"]["end"] for one in intervals if one["sum"]["omitted"]), default=0.0)
    return tuple(round(one["sum"]["end"] + (0.0 if one["sum"]["omitted"] else omitted_s), 6) for one in intervals)


def _summed(streams: list[list[Json]], name: str) -> tuple[int, ...] | None:
    if not all(name in stream for interval in streams for stream in interval):
        return None
    return tuple(sum(stream[name] for stream in interval) for interval in streams)


def _least(streams: list[list[Json]], name: str) -> tuple[int, ...] | None:
    if not all(stream.get(name) for interval in streams for stream in interval):
        return None
    return tuple(min(stream[name] for stream in interval) for interval in streams)


def _averaged(streams: list[list[Json]], name: str) -> tuple[float, ...] | None:
    if not all(name in stream for interval in streams for stream in interval):
        return None
    return tuple(round(sum(stream[name] for stream in interval) / len(interval), 6) for interval in streams)


def _averaged_ms(streams: list[list[Json]], name: str) -> tuple[float, ...] | None:
    """Microseconds in. iperf3 writes 0 where the system has no TCP_INFO."""
    if not all(stream.get(name) for interval in streams for stream in interval):
        return None
    return tuple(round(sum(one[name] for one in interval) / len(interval) / 1000.0, 4) for interval in streams)


def _mean_ms(values_us: Iterable[int | None]) -> float | None:
    """Mean over streams of what TCP_INFO says, microseconds in; as above, 0 is not known."""
    known = [value for value in values_us if value is not None and value > 0]
    return sum(known) / len(known) / 1000.0 if known else None


def _cpu_use(percent: Json, end: str) -> CpuUse:
    return CpuUse(
        total_ratio=percent[f"{end}_total"] / 100.0,
        user_ratio=percent[f"{end}_user"] / 100.0,
        system_ratio=percent[f"{end}_system"] / 100.0,
    )


def _udp(report: Json, reverse: bool, sent: SentIntervals | None) -> UdpCounts | None:
    """By the receiver's own account where it is there: what the sender repeats of it has no order of arrival. Datagrams
    are numbered, so a stranger's are known by numbers that were never sent. Raises `ServerBusy`."""
    told = report if reverse else report.get("server_output_json")
    end = (told or report)["end"]
    streams = [stream["udp"] for stream in end["streams"] if "udp" in stream]
    if not streams:
        return None
    numbered = MOST_PACKETS if sent is None or sent.packets is None else BESIDE_INTERVALS * sum(sent.packets)
    if not 0 <= end["sum"]["packets"] <= numbered:
        raise ServerBusy("iperf3 counted datagrams that are not of this test: somebody else sends to its port")
    return UdpCounts(
        packets=end["sum"]["packets"],
        lost_packets=max(0, end["sum"]["lost_packets"]),
        out_of_order=None if told is None else sum(stream["out_of_order"] for stream in streams),
        jitter_ms=end["sum"]["jitter_ms"],
    )

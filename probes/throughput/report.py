"""Parse iperf3's JSON report of a test, including the server's part if the client received it.

In: the output of iperf3 (versions 3.1 to 3.22). Out: a `ThroughputRun` with its `Transfer`, or a `ProbeError`: the
report of a failure, or a truncated report, has no throughput, never 0 bit/s. This module runs nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from probes.contract import NoRoute, NotPermitted, Outcome, ProbeError
from probes.throughput.spec import (
    LEAST_STEPS,
    MOST_STEPS,
    MOST_STEPS_OF_ALL,
    CpuUse,
    Protocol,
    ReceivedIntervals,
    SentIntervals,
    StreamResult,
    ThroughputRun,
    ThroughputSpec,
    Transfer,
    UdpCounts,
)

Json = dict[str, Any]

# Texts in iperf3's "error" (iperf_error.c, and strerror of the failed system call), with the outcome each stands for.
ERROR_OUTCOMES = (
    ("server is busy", Outcome.BUSY),
    ("connection refused", Outcome.REFUSED),
    ("unable to connect to server.*connection timed out", Outcome.REFUSED),
    # 3.9 says this, whatever the reason, if it has no connection.
    ("unable to send control message: bad file descriptor", Outcome.REFUSED),
    ("network is unreachable", Outcome.NO_ROUTE),
    ("no route to host", Outcome.NO_ROUTE),
    ("host is unreachable", Outcome.NO_ROUTE),
    ("authorization failed", Outcome.NOT_PERMITTED),
    ("permission denied", Outcome.NOT_PERMITTED),
    ("operation not permitted", Outcome.NOT_PERMITTED),
)


ERROR_LINE = re.compile(r"^iperf3: (?:parameter )?error - (.+)$", re.MULTILINE)
CONTROL_CLOSED = "control socket has closed unexpectedly"
WRONG_KEY = "before the test began; a server of iperf3 3.22 does so if the one-time key is wrong"


class ServerRefused(ProbeError):
    outcome = Outcome.REFUSED


class ServerBusy(ProbeError):
    outcome = Outcome.BUSY


class ToolFailure(ProbeError):
    outcome = Outcome.TOOL_FAILURE


OUTCOME_ERRORS: dict[Outcome, type[ProbeError]] = {
    Outcome.BUSY: ServerBusy,
    Outcome.REFUSED: ServerRefused,
    Outcome.NO_ROUTE: NoRoute,
    Outcome.NOT_PERMITTED: NotPermitted,
}
MAX_PACKETS = 2**53
"""An upper bound on the packets of any test."""
SENT_MARGIN = 2
"""Upper bound on sent datagrams, as a multiple of those in the sender's intervals: the last interval may be missing."""


def read_report(output: bytes, spec: ThroughputSpec, address: str, started_at: datetime) -> ThroughputRun:
    """Parse a client's report. Raises `ProbeError` if it reports a failure or is truncated."""
    report = decode(output)
    if "error" in report:
        message = str(report["error"])
        if message == CONTROL_CLOSED and spec.one_time_key is not None and "test_start" not in report.get("start", {}):
            raise NotPermitted(f"iperf3 to {address} port {spec.port}: {message} {WRONG_KEY}")
        raise _to_error(message, address, spec.port, _transferred(report))
    try:
        return _to_run(report, spec, address, started_at)
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise ToolFailure(f"iperf3's report is incomplete: {error!r}") from error


def decode(output: bytes) -> Json:
    """Decode a report. Lines around the JSON (warnings go to the same stream) are skipped, except an error that is not
    in the report itself, as with versions up to 3.9. Raises `ToolFailure`."""
    start, end = max(output.find(b"{"), 0), output.rfind(b"}") + 1
    error_line = ERROR_LINE.search((output[:start] + output[end:]).decode(errors="replace"))
    try:
        report = msgspec.json.decode(output[start:end], type=Json)
    except msgspec.DecodeError as error:
        last = output.decode(errors="replace").strip().splitlines()[-1:]
        explanation = f"iperf3: {error_line[1]}" if error_line else f"it ends: {''.join(last)!r}"
        raise ToolFailure(f"iperf3's report is cut off or not JSON ({error}); {explanation}") from error
    return report if error_line is None else {"error": error_line[1], **report}


def not_finished(output: bytes) -> ToolFailure:
    """The failure of a client that was stopped, with the bytes that it transferred and the seconds that took."""
    try:
        report = decode(output)
    except ToolFailure:
        report = {}
    figures = _transferred(report)
    transferred_bytes = figures.get("sent_bytes", figures.get("received_bytes"))
    transferred = f"{transferred_bytes:,} bytes" if transferred_bytes else "no data"
    return ToolFailure(f"iperf3 did not finish within the time of the test: {transferred} transferred", figures=figures)


def _transferred(report: Json) -> dict[str, Any]:
    """What a client that failed had transferred, as fields of its result; empty without any. A sender counts what it
    wrote to its socket, more than what has arrived."""
    sums = [interval["sum"] for interval in report.get("intervals", [])]
    transferred_bytes = sum(part["bytes"] for part in sums)
    if not transferred_bytes:
        return {}
    receives = report.get("start", {}).get("test_start", {}).get("reverse")
    return {
        "received_bytes" if receives else "sent_bytes": transferred_bytes,
        "duration_s": sum(part["seconds"] for part in sums),
    }


def received_bytes(server_report: Json) -> int:
    """Bytes that a server's test transferred, in either direction; 0 if there was no test."""
    sums = server_report.get("end", {})
    return max((int(sums.get(name, {}).get("bytes", 0)) for name in ("sum_received", "sum_sent")), default=0)


def peer_of(server_report: Json) -> str | None:
    """The client's address in a server's report; None if no client connected."""
    peer = server_report.get("start", {}).get("accepted_connection", {}).get("host")
    return None if peer is None else str(peer).removeprefix("::ffff:")


def listening_failed(server_report: Json) -> ProbeError | None:
    """The error of a server that could not listen; None for any other report."""
    message = str(server_report.get("error", ""))
    return ToolFailure(f"iperf3 server: {message}") if "listener" in message else None


def _to_error(message: str, address: str, port: int, figures: Mapping[str, Any]) -> ProbeError:
    lowered = message.lower()
    outcome = next((outcome for text, outcome in ERROR_OUTCOMES if re.search(text, lowered)), Outcome.TOOL_FAILURE)
    failure = OUTCOME_ERRORS.get(outcome, ToolFailure)
    return failure(f"iperf3 to {address} port {port}: {message}", figures=figures)


def _to_run(report: Json, spec: ThroughputSpec, address: str, started_at: datetime) -> ThroughputRun:
    started, end = report["start"]["test_start"], report["end"]
    protocol: Protocol = "udp" if started["protocol"] == "UDP" else "tcp"
    sent, received = _sums(end, started, protocol)
    if received["bytes"] <= 0:
        raise ToolFailure(f"iperf3 to {address} port {spec.port}: connected, but no data arrived")
    sender_end = report.get("server_output_json", {}).get("end", end) if started["reverse"] else end
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
        rtt_mean_ms=_mean_ms(stream.get("sender", {}).get("mean_rtt") for stream in sender_end.get("streams", [])),
        congestion_control=end.get("sender_tcp_congestion"),
        tool=report["start"]["version"],
        transfer=read_transfer(report),
    )


def _sums(end: Json, started: Json, protocol: Protocol) -> tuple[Json, Json]:
    """The sender's and the receiver's sums of the whole test.

    For UDP some versions have a single sum, that of the sender with the receiver's losses in it; the received bytes are
    then the datagrams that arrived times their size, which is constant.
    """
    if "sum_received" in end:
        return end["sum_sent"], end["sum_received"]
    if protocol == "tcp":
        raise KeyError("sum_received")
    total = end["sum"]
    received_bytes_total = (total["packets"] - total["lost_packets"]) * started["blksize"]
    received = {
        "bytes": received_bytes_total,
        "seconds": total["seconds"],
        "bits_per_second": received_bytes_total * 8 / total["seconds"] if total["seconds"] > 0 else 0.0,
    }
    return total, received


def read_transfer(report: Json) -> Transfer:
    """Read the intervals and figures of both ends. With `reverse` the server was the sender."""
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
        omitted_s=max((interval["sum"]["end"] for interval in own if interval["sum"]["omitted"]), default=0.0),
        mss_bytes=report["start"].get("tcp_mss_default") or report["start"].get("tcp_mss"),
        sender_cpu=sender_cpu,
        receiver_cpu=receiver_cpu,
        udp=_udp(report, reverse, sent_intervals),
        block_bytes=report["start"]["test_start"].get("blksize"),
        streams=_streams(report, reverse),
    )


def _streams(report: Json, reverse: bool) -> tuple[StreamResult, ...]:
    """The streams of a TCP test. With `reverse` the RTTs and retransmissions are in the server's report."""
    of_client = report["end"].get("streams", [])
    of_server = report.get("server_output_json", {}).get("end", {}).get("streams", [])
    senders, receivers = (of_server, of_client) if reverse else (of_client, of_server)
    if any("udp" in stream for stream in of_client):
        return ()
    alike = len(senders) == len(receivers)
    steps_bps = _steps_of_streams(report, reverse, len(of_client))
    return tuple(
        _stream(
            (senders[place] if alike else stream).get("sender", {}),
            (receivers[place] if alike else stream).get("receiver", {}),
            steps_bps[place] if place < len(steps_bps) else (),
        )
        for place, stream in enumerate(of_client)
    )


def _steps_of_streams(report: Json, reverse: bool, count: int) -> list[tuple[int, ...]]:
    """The rates of each stream over parts of the test, as the receiver counted where it reported; empty for one."""
    of_client = report.get("intervals", [])
    of_server = report.get("server_output_json", {}).get("intervals", [])
    measured = [
        interval
        for interval in (of_client if reverse else of_server) or of_client
        if not interval["sum"].get("omitted") and len(interval["streams"]) == count
    ]
    if count < 2 or not measured:
        return []
    steps = min(len(measured), MOST_STEPS, max(LEAST_STEPS, MOST_STEPS_OF_ALL // count))
    bounds = [len(measured) * step // steps for step in range(steps + 1)]
    parts = [measured[begin:end] for begin, end in itertools.pairwise(bounds)]
    return [tuple(_mean_rate_bps(part, place) for part in parts) for place in range(count)]


def _mean_rate_bps(part: list[Json], place: int) -> int:
    length_s = sum(interval["sum"]["seconds"] for interval in part)
    sent_bytes = sum(interval["streams"][place]["bytes"] for interval in part)
    return round(8.0 * sent_bytes / length_s) if length_s > 0 else 0


def _stream(sent: Json, received: Json, steps_bps: tuple[int, ...] = ()) -> StreamResult:
    """A stream by the reports of its two ends; its rate is the receiver's where that reported any."""
    rated = received if received.get("bytes") else sent
    return StreamResult(
        throughput_bps=rated.get("bits_per_second", 0.0),
        duration_s=rated.get("seconds", 0.0),
        sent_bytes=sent.get("bytes"),
        received_bytes=received.get("bytes"),
        retransmits=sent.get("retransmits"),
        rtt_min_ms=_mean_ms([sent.get("min_rtt")]),
        rtt_mean_ms=_mean_ms([sent.get("mean_rtt")]),
        rtt_max_ms=_mean_ms([sent.get("max_rtt")]),
        cwnd_max_bytes=sent.get("max_snd_cwnd"),
        steps_bps=steps_bps,
    )


def _sent(intervals: list[Json]) -> SentIntervals | None:
    if not intervals:
        return None
    streams = [interval["streams"] for interval in intervals]
    return SentIntervals(
        end_s=_ends_s(intervals),
        sent_bytes=tuple(interval["sum"]["bytes"] for interval in intervals),
        retransmits=_summed(streams, "retransmits"),
        cwnd_bytes=_summed(streams, "snd_cwnd"),
        peer_window_bytes=_summed(streams, "snd_wnd"),
        rtt_ms=_mean_of_streams_ms(streams, "rtt"),
        rtt_variation_ms=_mean_of_streams_ms(streams, "rttvar"),
        path_mtu_bytes=_minimum(streams, "pmtu"),
        packets=_summed(streams, "packets"),
    )


def _received(intervals: list[Json]) -> ReceivedIntervals | None:
    if not intervals:
        return None
    streams = [interval["streams"] for interval in intervals]
    return ReceivedIntervals(
        end_s=_ends_s(intervals),
        received_bytes=tuple(interval["sum"]["bytes"] for interval in intervals),
        packets=_summed(streams, "packets"),
        lost_packets=_summed(streams, "lost_packets"),
        jitter_ms=_mean(streams, "jitter_ms"),
    )


def _ends_s(intervals: list[Json]) -> tuple[float, ...]:
    """Ends of the intervals from the start of the test; iperf3 restarts at 0 after the omitted part."""
    omitted_s = max((interval["sum"]["end"] for interval in intervals if interval["sum"]["omitted"]), default=0.0)
    return tuple(
        round(interval["sum"]["end"] + (0.0 if interval["sum"]["omitted"] else omitted_s), 6) for interval in intervals
    )


def _summed(streams: list[list[Json]], name: str) -> tuple[int, ...] | None:
    if not all(name in stream for interval in streams for stream in interval):
        return None
    return tuple(sum(stream[name] for stream in interval) for interval in streams)


def _minimum(streams: list[list[Json]], name: str) -> tuple[int, ...] | None:
    if not all(stream.get(name) for interval in streams for stream in interval):
        return None
    return tuple(min(stream[name] for stream in interval) for interval in streams)


def _mean(streams: list[list[Json]], name: str) -> tuple[float, ...] | None:
    if not all(name in stream for interval in streams for stream in interval):
        return None
    return tuple(round(sum(stream[name] for stream in interval) / len(interval), 6) for interval in streams)


def _mean_of_streams_ms(streams: list[list[Json]], name: str) -> tuple[float, ...] | None:
    """Mean over the streams of each interval, from microseconds. iperf3 writes 0 if the system lacks TCP_INFO."""
    if not all(stream.get(name) for interval in streams for stream in interval):
        return None
    return tuple(round(sum(stream[name] for stream in interval) / len(interval) / 1000.0, 4) for interval in streams)


def _mean_ms(values_us: Iterable[int | None]) -> float | None:
    """Mean over the streams, from microseconds; 0 counts as unknown, as above."""
    positive = [value for value in values_us if value is not None and value > 0]
    return sum(positive) / len(positive) / 1000.0 if positive else None


def _cpu_use(percent: Json, end: str) -> CpuUse:
    return CpuUse(
        total_ratio=percent[f"{end}_total"] / 100.0,
        user_ratio=percent[f"{end}_user"] / 100.0,
        system_ratio=percent[f"{end}_system"] / 100.0,
    )


def _udp(report: Json, reverse: bool, sent: SentIntervals | None) -> UdpCounts | None:
    """Datagram counts, from the receiver's report if it is there: the sender's copy lacks the out-of-order count.

    Datagrams are numbered, so datagrams of another sender show as numbers that were never sent. Raises `ServerBusy`.
    """
    receiver_report = report if reverse else report.get("server_output_json")
    end = (receiver_report or report)["end"]
    streams = [stream["udp"] for stream in end["streams"] if "udp" in stream]
    if not streams:
        return None
    max_sent = MAX_PACKETS if sent is None or sent.packets is None else SENT_MARGIN * sum(sent.packets)
    if not 0 <= end["sum"]["packets"] <= max_sent:
        raise ServerBusy("iperf3 counted datagrams of another sender: another host sends to its port")
    return UdpCounts(
        packets=end["sum"]["packets"],
        lost_packets=max(0, end["sum"]["lost_packets"]),
        out_of_order=None if receiver_report is None else sum(stream["out_of_order"] for stream in streams),
        jitter_ms=end["sum"]["jitter_ms"],
    )

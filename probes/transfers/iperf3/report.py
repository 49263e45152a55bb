"""Parses iperf3's JSON report (versions 3.1 to 3.22). Runs nothing.

Failure and truncated reports have no throughput, never 0 bit/s.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from datetime import datetime
from ipaddress import ip_address
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from probes.bounds import Amount, Count, LargeCount, PositiveSmallCount, ShortText
from probes.contract import NotPermitted, Outcome, ProbeError
from probes.transfers.iperf3.bidirectional import one_direction
from probes.transfers.iperf3.document import Json, decode
from probes.transfers.iperf3.errors import ServerBusy, ServerRefused, ToolFailure, failure_of
from probes.transfers.iperf3.figures import DAMAGED, kept, known, unless_damaged
from probes.transfers.iperf3.sums import ends_of, measured_bps
from probes.transfers.spec import (
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

__all__ = ["Json", "ServerBusy", "ServerRefused", "ToolFailure", "decode", "read_report"]

CONTROL_CLOSED = "control socket has closed unexpectedly"
WRONG_KEY = "before the test began; a server of iperf3 3.22 does so if the one-time key is wrong"
# An upper bound on the packets of any test.
MAX_PACKETS = 2**53
# Bound on bytes or datagrams, as a multiple of the intervals' sum: the last may be missing.
SENT_MARGIN = 2
PacketDifference = Annotated[int, Meta(ge=-MAX_PACKETS, le=MAX_PACKETS)]


def read_report(output: bytes, spec: ThroughputSpec, address: str, started_at: datetime) -> ThroughputRun:
    """Parse a client's report. Raises `ProbeError` for failure, truncation or contradiction."""
    report = decode(output)
    if "error" in report:
        message = report["error"]
        if message == CONTROL_CLOSED and spec.one_time_key is not None and "test_start" not in report.get("start", {}):
            raise NotPermitted(f"iperf3 to {address} port {spec.port}: {message} {WRONG_KEY}")
        raise failure_of(message, address, spec.port, _transferred(report) or {})
    try:
        return _to_run(one_direction(report, spec.reverse), spec, address, started_at)
    except DAMAGED as error:
        raise ToolFailure(f"iperf3's report is incomplete: {error!r}") from error


def not_finished(output: bytes) -> ToolFailure:
    """Failure of a stopped client, with bytes and seconds."""
    try:
        report = decode(output)
    except ToolFailure:
        report = {}
    figures = _transferred(report) or {}
    transferred_bytes = figures.get("sent_bytes", figures.get("received_bytes"))
    transferred = f"{transferred_bytes:,} bytes" if transferred_bytes else "no data"
    return ToolFailure(f"iperf3 did not finish within the time of the test: {transferred} transferred", figures=figures)


@unless_damaged
def _transferred(report: Json) -> dict[str, Any]:
    # A failed client's transfer; a sender counts unarrived bytes too.
    sums = [interval["sum"] for interval in report.get("intervals", [])]
    transferred_bytes = msgspec.convert(sum(part["bytes"] for part in sums), LargeCount)
    if not transferred_bytes:
        return {}
    receives = report.get("start", {}).get("test_start", {}).get("reverse")
    return {
        "received_bytes" if receives else "sent_bytes": transferred_bytes,
        "duration_s": known(sum(part["seconds"] for part in sums), Amount),
    }


def received_bytes(server_report: Json) -> int:
    """Bytes transferred in either direction; 0 without a test."""
    return max(_bytes_of_sum(server_report, name) or 0 for name in ("sum_received", "sum_sent"))


@unless_damaged
def _bytes_of_sum(report: Json, name: str) -> Any:
    return known(report["end"][name]["bytes"], LargeCount)


@unless_damaged
def peer_of(server_report: Json) -> str | None:
    """The client's address, or None."""
    return str(ip_address(server_report["start"]["accepted_connection"]["host"].removeprefix("::ffff:")))


def listening_failed(server_report: Json) -> ProbeError | None:
    """The error of a server that could not listen."""
    message = str(server_report.get("error", ""))
    return ToolFailure(f"iperf3 server: {message}") if "listener" in message else None


def _to_run(report: Json, spec: ThroughputSpec, address: str, started_at: datetime) -> ThroughputRun:
    started, end = report["start"]["test_start"], report["end"]
    protocol: Protocol = "udp" if started["protocol"] == "UDP" else "tcp"
    reverse = bool(msgspec.convert(started["reverse"], bool | Literal[0, 1]))
    # First: datagrams of another sender are no contradiction of the two ends.
    transfer = read_transfer(report)
    sent, received = ends_of(end, started, protocol)
    rate_bps = measured_bps(sent, received, _omitted_bytes(report, reverse), f"iperf3 to {address} port {spec.port}")
    sender_end = _end_of_server(report) or end if reverse else end
    return kept(
        ThroughputRun,
        target=spec.address,
        address=address,
        family=spec.family,
        started_at=started_at,
        outcome=Outcome.MEASURED,
        protocol=protocol,
        reverse=reverse,
        streams=known(started.get("num_streams"), PositiveSmallCount) or spec.streams,
        asked_bps=_asked_bps(started, spec),
        duration_s=received.seconds,
        throughput_bps=rate_bps,
        sent_bytes=sent.transferred_bytes,
        received_bytes=received.transferred_bytes,
        retransmits=sent.retransmits,
        rtt_mean_ms=_rtt_mean_ms(sender_end),
        congestion_control=known(end.get("sender_tcp_congestion"), ShortText),
        tool=known(report["start"].get("version"), ShortText),
        transfer=transfer,
    )


@unless_damaged
def _asked_bps(started: Json, spec: ThroughputSpec) -> float | None:
    # Requested rate of all streams; reports have each stream's from 3.10 on.
    if spec.rate_bps is not None:
        return float(spec.rate_bps)
    of_stream = known(started.get("target_bitrate"), Amount)
    return known(of_stream * started["num_streams"], Amount) if of_stream else None


def read_transfer(report: Json) -> Transfer:
    """Read both ends; with `reverse` the server was the sender."""
    end, reverse = report["end"], bool(report["start"]["test_start"]["reverse"])
    own, other = report["intervals"], _intervals_of_server(report)
    sent, received = (other, own) if reverse else (own, other)
    cpu = end.get("cpu_utilization_percent")
    ends = [_cpu_use(cpu, "host"), _cpu_use(cpu, "remote")]
    sender_cpu, receiver_cpu = reversed(ends) if reverse else ends
    sent_intervals, received_intervals = _sent(sent), _received(received)
    if _is_more_than_sent(sent_intervals, received_intervals):
        # The counts of this end are the kernel's; those of the other came from the peer.
        sent_intervals, received_intervals = (None, received_intervals) if reverse else (sent_intervals, None)
    return kept(
        Transfer,
        sent=sent_intervals,
        received=received_intervals,
        omitted_s=_omitted_s(own) or 0.0,
        mss_bytes=report["start"].get("tcp_mss_default") or report["start"].get("tcp_mss"),
        sender_cpu=sender_cpu,
        receiver_cpu=receiver_cpu,
        udp=_udp(report, reverse, sent_intervals),
        block_bytes=report["start"]["test_start"].get("blksize"),
        streams=_streams(report, reverse) or (),
    )


def _is_more_than_sent(sent: SentIntervals | None, received: ReceivedIntervals | None) -> bool:
    return (
        sent is not None and received is not None and sum(received.received_bytes) > SENT_MARGIN * sum(sent.sent_bytes)
    )


@unless_damaged
def _streams(report: Json, reverse: bool) -> tuple[StreamResult, ...]:
    """TCP streams; with `reverse`, RTTs and retransmissions are the server's."""
    of_client = report["end"].get("streams", [])
    of_server = _end_of_server(report).get("streams", [])
    senders, receivers = (of_server, of_client) if reverse else (of_client, of_server)
    if any("udp" in stream for stream in of_client):
        return ()
    alike = len(senders) == len(receivers)
    steps_bps = _steps_of_streams(report, reverse, len(of_client)) or []
    streams = tuple(
        _stream(
            (senders[place] if alike else stream).get("sender", {}),
            (receivers[place] if alike else stream).get("receiver", {}),
            steps_bps[place] if place < len(steps_bps) else (),
        )
        for place, stream in enumerate(of_client)
    )
    total_bps = known(report["end"]["sum_received"]["bits_per_second"], Amount)
    is_whole = total_bps is None or sum(stream.throughput_bps for stream in streams) <= SENT_MARGIN * total_bps
    return streams if is_whole else ()


@unless_damaged
def _steps_of_streams(report: Json, reverse: bool, count: int) -> list[tuple[int, ...]]:
    """Each stream's rates over the test, the receiver's if reported; empty for one."""
    of_client = report.get("intervals", [])
    of_server = _intervals_of_server(report)
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
    """Merge both ends' reports; the rate is the receiver's if reported."""
    rated = received if received.get("bytes") else sent
    return kept(
        StreamResult,
        throughput_bps=rated.get("bits_per_second", 0.0),
        duration_s=rated.get("seconds", 0.0),
        sent_bytes=sent.get("bytes"),
        received_bytes=received.get("bytes"),
        retransmits=known(sent.get("retransmits"), Count),
        rtt_min_ms=_mean_ms([sent.get("min_rtt")]),
        rtt_mean_ms=_mean_ms([sent.get("mean_rtt")]),
        rtt_max_ms=_mean_ms([sent.get("max_rtt")]),
        cwnd_max_bytes=sent.get("max_snd_cwnd"),
        steps_bps=steps_bps,
    )


@unless_damaged
def _sent(intervals: list[Json]) -> SentIntervals | None:
    if not intervals:
        return None
    streams = [interval["streams"] for interval in intervals]
    return kept(
        SentIntervals,
        end_s=_ends_s(intervals),
        sent_bytes=tuple(interval["sum"]["bytes"] for interval in intervals),
        retransmits=_summed(streams, "retransmits", Count),
        cwnd_bytes=_summed(streams, "snd_cwnd"),
        peer_window_bytes=_summed(streams, "snd_wnd"),
        rtt_ms=_mean_of_streams_ms(streams, "rtt"),
        rtt_variation_ms=_mean_of_streams_ms(streams, "rttvar"),
        path_mtu_bytes=_minimum(streams, "pmtu"),
        packets=_summed(streams, "packets"),
    )


@unless_damaged
def _received(intervals: list[Json]) -> ReceivedIntervals | None:
    if not intervals:
        return None
    streams = [interval["streams"] for interval in intervals]
    return kept(
        ReceivedIntervals,
        end_s=_ends_s(intervals),
        received_bytes=tuple(interval["sum"]["bytes"] for interval in intervals),
        packets=_summed(streams, "packets"),
        lost_packets=_summed(streams, "lost_packets", PacketDifference),
        jitter_ms=_mean(streams, "jitter_ms"),
    )


def _end_of_server(report: Json) -> Json:
    return known(report.get("server_output_json", {}).get("end"), Json) or {}


def _intervals_of_server(report: Json) -> list[Any]:
    return known(report.get("server_output_json", {}).get("intervals"), list[Any]) or []


@unless_damaged
def _rtt_mean_ms(sender_end: Json) -> float | None:
    return _mean_ms(stream.get("sender", {}).get("mean_rtt") for stream in sender_end.get("streams", []))


@unless_damaged
def _omitted_bytes(report: Json, reverse: bool) -> int:
    """Bytes that iperf3 omits from its sums, by sender intervals if known."""
    of_sender = _intervals_of_server(report) if reverse else []
    omitted = [interval["sum"]["bytes"] for interval in of_sender or report["intervals"] if interval["sum"]["omitted"]]
    return msgspec.convert(sum(omitted), LargeCount)


@unless_damaged
def _omitted_s(intervals: list[Json]) -> float:
    # Length of the omitted part; iperf3 restarts at 0 after it.
    return max((interval["sum"]["end"] for interval in intervals if interval["sum"]["omitted"]), default=0.0)


def _ends_s(intervals: list[Json]) -> tuple[float, ...]:
    omitted_s = _omitted_s(intervals) or 0.0
    return tuple(
        round(interval["sum"]["end"] + (0.0 if interval["sum"]["omitted"] else omitted_s), 6) for interval in intervals
    )


@unless_damaged
def _summed(streams: list[list[Json]], name: str, bounds: Any = LargeCount) -> tuple[int, ...] | None:
    if not all(name in stream for interval in streams for stream in interval):
        return None
    return tuple(sum(msgspec.convert(stream[name], bounds) for stream in interval) for interval in streams)


@unless_damaged
def _minimum(streams: list[list[Json]], name: str) -> tuple[int, ...] | None:
    if not all(stream.get(name) for interval in streams for stream in interval):
        return None
    return tuple(min(stream[name] for stream in interval) for interval in streams)


@unless_damaged
def _mean(streams: list[list[Json]], name: str) -> tuple[float, ...] | None:
    if not all(name in stream for interval in streams for stream in interval):
        return None
    return tuple(round(sum(stream[name] for stream in interval) / len(interval), 6) for interval in streams)


@unless_damaged
def _mean_of_streams_ms(streams: list[list[Json]], name: str) -> tuple[float, ...] | None:
    # Mean over streams per interval, from µs; 0 means no TCP_INFO.
    if not all(stream.get(name) for interval in streams for stream in interval):
        return None
    return tuple(round(sum(stream[name] for stream in interval) / len(interval) / 1000.0, 4) for interval in streams)


@unless_damaged
def _mean_ms(values_us: Iterable[int | None]) -> float | None:
    positive = [value for value in values_us if value is not None and value > 0]
    return sum(positive) / len(positive) / 1000.0 if positive else None


@unless_damaged
def _cpu_use(percent: Json, end: str) -> CpuUse:
    return kept(
        CpuUse,
        total_ratio=percent[f"{end}_total"] / 100.0,
        user_ratio=percent[f"{end}_user"] / 100.0,
        system_ratio=percent[f"{end}_system"] / 100.0,
    )


@unless_damaged
def _udp(report: Json, reverse: bool, sent: SentIntervals | None) -> UdpCounts | None:
    """Datagram counts, preferably the receiver's. Raises `ServerBusy` for numbers never sent."""
    receiver_report = report if reverse else report.get("server_output_json")
    end = (receiver_report or report)["end"]
    streams = [stream["udp"] for stream in end["streams"] if "udp" in stream]
    if not streams:
        return None
    max_sent = MAX_PACKETS if sent is None or sent.packets is None else SENT_MARGIN * sum(sent.packets)
    if not 0 <= end["sum"]["packets"] <= max_sent:
        raise ServerBusy("iperf3 counted datagrams of another sender: another host sends to its port")
    return kept(
        UdpCounts,
        packets=end["sum"]["packets"],
        lost_packets=max(0, end["sum"]["lost_packets"]),
        out_of_order=None if receiver_report is None else sum(stream["out_of_order"] for stream in streams),
        jitter_ms=end["sum"]["jitter_ms"],
    )

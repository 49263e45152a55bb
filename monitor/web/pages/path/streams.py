"""The streams of a throughput test for the path page, as text, with the slow ones marked."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from monitor.analysis import figures
from monitor.analysis.tcp import wording
from monitor.archive.queries.throughput.transfers import StoredTransfer
from probes.throughput.spec import StreamResult

SLOW_RATIO = 0.5
"""Share of the median rate below which a stream is slow."""
UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class StreamRow:
    """A stream: its number from 1 and its figures. `remark` says whether it is slow."""

    number: int
    throughput: str
    received: str
    retransmits: str
    rtt: str
    cwnd: str
    remark: str


def stream_rows(stored: StoredTransfer) -> tuple[StreamRow, ...]:
    """The streams of a test; none for a single stream, whose figures are those of the test."""
    streams = () if stored.transfer is None else stored.transfer.streams
    if len(streams) < 2:
        return ()
    usual_bps = median(stream.throughput_bps for stream in streams)
    return tuple(_row(number, stream, usual_bps) for number, stream in enumerate(streams, 1))


def _row(number: int, stream: StreamResult, usual_bps: float) -> StreamRow:
    is_slow = stream.throughput_bps < SLOW_RATIO * usual_bps
    return StreamRow(
        number=number,
        throughput=figures.bit_rate(stream.throughput_bps),
        received=UNKNOWN if stream.received_bytes is None else wording.size(stream.received_bytes),
        retransmits=UNKNOWN if stream.retransmits is None else figures.count(stream.retransmits),
        rtt=UNKNOWN if stream.rtt_mean_ms is None else figures.milliseconds(stream.rtt_mean_ms),
        cwnd=UNKNOWN if stream.cwnd_max_bytes is None else wording.size(stream.cwnd_max_bytes),
        remark=f"slow: {figures.percent(stream.throughput_bps / usual_bps)} of the median" if is_slow else "",
    )

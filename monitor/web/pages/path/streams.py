"""Streams of a throughput test as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from monitor.analysis import figures
from monitor.analysis.tcp import wording
from monitor.archive.queries.throughput.transfers import StoredTransfer
from probes.transfers.spec import StreamResult

# Share of the median rate below which a stream is slow.
SLOW_RATIO = 0.5
UNKNOWN = "–"
WIDTH, HEIGHT = 96, 18


@dataclass(frozen=True, slots=True)
class StreamRow:
    number: int  # from 1
    throughput: str
    received: str
    retransmits: str
    rtt: str
    cwnd: str
    remark: str  # whether it is slow
    chart: SafeString  # its rate, from zero to the highest of all streams; may be empty


def stream_rows(stored: StoredTransfer) -> tuple[StreamRow, ...]:
    """Return none for a single stream, which equals the test."""
    streams = () if stored.transfer is None else stored.transfer.streams
    if len(streams) < 2:
        return ()
    usual_bps = median(stream.throughput_bps for stream in streams)
    top_bps = max((rate for stream in streams for rate in stream.steps_bps), default=0)
    return tuple(_row(number, stream, usual_bps, top_bps) for number, stream in enumerate(streams, 1))


def _row(number: int, stream: StreamResult, usual_bps: float, top_bps: float) -> StreamRow:
    is_slow = stream.throughput_bps < SLOW_RATIO * usual_bps
    return StreamRow(
        number=number,
        throughput=figures.bit_rate(stream.throughput_bps),
        received=UNKNOWN if stream.received_bytes is None else wording.size(stream.received_bytes),
        retransmits=UNKNOWN if stream.retransmits is None else figures.count(stream.retransmits),
        rtt=UNKNOWN if stream.rtt_mean_ms is None else figures.milliseconds(stream.rtt_mean_ms),
        cwnd=UNKNOWN if stream.cwnd_max_bytes is None else wording.size(stream.cwnd_max_bytes),
        remark=f"slow: {figures.percent(stream.throughput_bps / usual_bps)} of the median" if is_slow else "",
        chart=_chart(stream.steps_bps, top_bps),
    )


def _chart(steps_bps: Sequence[int], top_bps: float) -> SafeString:
    if len(steps_bps) < 2 or top_bps <= 0:
        return mark_safe("")
    step = WIDTH / (len(steps_bps) - 1)
    line = "L".join(f"{step * place:.1f} {HEIGHT * (1 - rate / top_bps):.1f}" for place, rate in enumerate(steps_bps))
    low, high = (figures.bit_rate(float(rate)) for rate in (min(steps_bps), max(steps_bps)))
    words = f"{low} to {high}, {figures.bit_rate(float(steps_bps[-1]))} at the end"
    return format_html(
        '<svg class="trend" viewBox="-2 -2 {} {}" width="{}" height="{}" role="img" aria-label="{}"><title>{}</title>'
        '<path d="M{}"/></svg>',
        WIDTH + 4, HEIGHT + 4, WIDTH + 4, HEIGHT + 4, words, words, line,
    )  # fmt: skip

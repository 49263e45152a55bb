"""A throughput test and the TCP estimate as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from monitor.analysis import figures
from monitor.analysis.tcp import Forecast, LimitName, ThroughputEstimate, wording
from monitor.analysis.transfer import EvidenceFigure
from monitor.archive.diagnosis.findings import Findings
from monitor.archive.queries.path_estimates import PathEstimate
from monitor.archive.queries.throughput.forecasts import UnansweredPings
from monitor.archive.queries.throughput.inventories import InventoryChange
from monitor.archive.queries.throughput.transfers import StoredTransfer
from monitor.web.charts.transfer import TransferCharts, transfer_charts
from monitor.web.pages.captures.figures import CapturesView
from monitor.web.pages.path.hosts import HostsView, hosts_view
from probes.transfers.iperf3.authentication import has_thread_per_stream
from probes.transfers.socket_buffers import fix_text, too_small
from probes.transfers.spec import CpuUse, StreamResult, Transfer

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


# Name and value.
Fact = tuple[str, str]

# A slow start that is this little too long for a test of its length is not worth a longer test.
NEEDED_SLACK_S = 0.05


@dataclass(frozen=True, slots=True)
class TransferView:
    stored: StoredTransfer
    evidence: tuple[Fact, ...]  # figures behind the verdict
    facts: tuple[Fact, ...]
    charts: TransferCharts | None
    hosts: HostsView | None = None
    streams: tuple[StreamRow, ...] = ()
    captures: CapturesView | None = None


@dataclass(frozen=True, slots=True)
class EstimateView:
    headline: str
    notes: tuple[str, ...]
    limits: tuple[tuple[str, str, str, str], ...]  # rows of name, throughput, 80% interval and ground
    advice: tuple[tuple[str, str, str], ...]
    base: str
    target: str


def transfer_view(
    stored: StoredTransfer, changes: Sequence[InventoryChange] = (), captures: CapturesView | None = None
) -> TransferView:
    findings = stored.findings
    return TransferView(
        stored=stored,
        evidence=() if findings is None else tuple(_evidence(figure) for figure in findings.evidence),
        facts=(
            *_rates(stored),
            *finding_facts(findings),
            *_transfer_facts(stored.transfer),
            *_buffer_facts(stored),
        ),
        charts=transfer_charts(stored),
        hosts=hosts_view(stored, changes),
        streams=stream_rows(stored),
        captures=captures,
    )


def estimate_view(
    made: PathEstimate | UnansweredPings, *, capacity_from: str = "measured on this path"
) -> EstimateView:
    """Show no rate in an outage; `capacity_from` is the capacity's source."""
    if isinstance(made, UnansweredPings):
        return EstimateView(wording.unanswered(made.since, made.until), (), (), (), "", "")
    result = made.estimate
    limits = [
        (
            str(limit.name),
            wording.signed(limit.throughput_bps, limit.sign),
            wording.interval(limit.low_bps, limit.high_bps, "{}"),
            capacity_from
            if limit.name is LimitName.CAPACITY
            else wording.ground(limit.name, made.rtt, made.loss, made.transfer),
        )
        for limit in result.limits
    ]
    index = wording.signed(result.reno_index_bps, result.reno_index_sign)
    limits.append(("Mathis (Reno)", index, "", "Mathis, C = 1, one stream: for comparison only"))
    model = (*wording.notes(made.loss, result), *_calibration_facts(made), *_sender_facts(made))
    advice = None if made.forecast is not None and not _agree(made.forecast, result) else result.advice
    return EstimateView(
        headline=wording.headline(result) if made.forecast is None else wording.forecast_headline(made.forecast),
        notes=(*_forecast_notes(made), *model),
        limits=tuple(limits),
        advice=() if advice is None else tuple(wording.advice_rows(advice, made.loss, made.transfer)),
        base="" if advice is None else wording.rate(advice.target_bps / advice.times),
        target="" if advice is None else wording.rate(advice.target_bps),
    )


def _agree(forecast: Forecast, model: ThroughputEstimate) -> bool:
    return model.throughput_bps is not None and forecast.low_bps <= model.throughput_bps <= forecast.high_bps


def _forecast_notes(made: PathEstimate) -> tuple[str, ...]:
    if made.until is None:
        return ()
    age = wording.age_of_pings(made.pings_since, made.until, is_since_change=made.is_since_change)
    if made.forecast is None:
        return (wording.MODEL_ALONE, age)
    alone = f"From RTT, loss, window and capacity alone: {wording.headline(made.estimate)}."
    return (*wording.forecast_notes(made.forecast, made.until), alone, age)


def _calibration_facts(made: PathEstimate) -> tuple[str, ...]:
    learnt = made.calibration
    if learnt is None:
        return ()
    if learnt.used is None or made.uncalibrated is None:
        return (wording.not_calibrated(learnt.calibration, learnt.stretches),)
    return tuple(wording.calibrated(learnt.used, made.uncalibrated))


def _sender_facts(made: PathEstimate) -> tuple[str, ...]:
    if made.sender is None or made.sender == made.transfer.control:
        return ()
    if made.sender.startswith("bbr"):
        return ("Tests use BBR, which keeps its rate up to a loss of about 5%.",)
    return (f"Tests use {made.sender}, for which there is no model; estimated as {made.transfer.control}.",)


def _evidence(figure: EvidenceFigure) -> Fact:
    return figure.name, _written(figure.value, figure.unit)


def _written(value: float, unit: str) -> str:
    if unit == "bit/s":
        return figures.bit_rate(value)
    if unit == "ms":
        return figures.milliseconds(value)
    if unit == "B":
        return wording.size(value)
    if unit == "s":
        return f"{value:.2f} s"
    return figures.count(round(value)) if unit == "count" else figures.percent(value)


def _rates(stored: StoredTransfer) -> list[Fact]:
    facts = []
    if stored.steady_s is not None:
        facts.append(("after slow start", f"{figures.bit_rate(stored.throughput_bps)} over {stored.steady_s:.1f} s"))
    if stored.average_bps is not None:
        facts.append(("average of the test", figures.bit_rate(stored.average_bps)))
    if stored.asked_bps is not None:
        facts.append(("requested rate", figures.bit_rate(stored.asked_bps)))
    streams = f"{stored.streams} stream{'s' if stored.streams > 1 else ''}"
    facts.append(("sent by", ", ".join([streams, *([stored.congestion_control] if stored.congestion_control else [])])))
    if stored.streams > 1 and has_thread_per_stream(stored.tool) is False:
        facts.append(("threads", f"{stored.tool}: all streams on one CPU core; 3.16 and later use a thread for each"))
    return facts


def finding_facts(findings: Findings | None) -> list[Fact]:
    if findings is None:
        return []
    start = f"{findings.start_s:.2f} s of {findings.duration_s:.1f} s"
    needed_s = math.ceil(findings.wanted_s - NEEDED_SLACK_S)
    if findings.too_short and needed_s > findings.duration_s:
        start += f": too long for this test, which needs {needed_s} s"
    facts = [("slow start", start)]
    if findings.recoveries:
        facts.append(("losses", f"{len(findings.recoveries)} events, costing {findings.lost_s:.2f} s"))
    if findings.pauses:
        paused_s = sum(pause.length_s for pause in findings.pauses)
        facts.append(("sender pauses", f"{len(findings.pauses)}, {paused_s:.2f} s in total"))
    if findings.loaded_rtt_ms is not None:
        idle = "" if findings.idle_rtt_ms is None else f", idle {figures.milliseconds(findings.idle_rtt_ms)}"
        facts.append(("median RTT after slow start", f"{figures.milliseconds(findings.loaded_rtt_ms)}{idle}"))
    return facts + _rfc6349(findings)


def _rfc6349(findings: Findings) -> list[Fact]:
    ratios = findings.rfc6349
    if ratios is None:
        return []
    facts = []
    if ratios.buffer_delay_ratio is not None:
        facts.append(("buffer delay (RFC 6349)", f"{ratios.buffer_delay_ratio:.0%}"))
    if ratios.efficiency_ratio is not None:
        facts.append(("efficiency (RFC 6349)", figures.percent(ratios.efficiency_ratio)))
    if ratios.transfer_time_ratio is not None:
        facts.append(("transfer time ratio (RFC 6349)", f"{ratios.transfer_time_ratio:.2f}"))
    return facts


def _transfer_facts(transfer: Transfer | None) -> list[Fact]:
    if transfer is None:
        return []
    facts = []
    if transfer.udp is not None:
        udp = transfer.udp
        lost = figures.loss(udp.lost_packets, udp.packets)
        facts += [
            ("datagrams lost", f"{figures.count(udp.lost_packets)} of {figures.count(udp.packets)}: {lost}"),
            ("jitter", figures.milliseconds(udp.jitter_ms)),
        ]
        if udp.out_of_order is not None:
            facts.append(("out of order", figures.count(udp.out_of_order)))
    if transfer.block_bytes is not None:
        facts.append(("length of a write", f"{figures.count(transfer.block_bytes)} bytes"))
    if transfer.kernel is not None and transfer.kernel.segment_bytes is not None:
        facts.append(("segments sent", f"of {figures.count(transfer.kernel.segment_bytes)} bytes"))
    sent = transfer.sent
    if sent is not None and sent.path_mtu_bytes:
        facts.append(("path MTU", f"{figures.count(min(sent.path_mtu_bytes))} bytes"))
    for end, use in (("sender", transfer.sender_cpu), ("receiver", transfer.receiver_cpu)):
        if use is not None:
            facts.append((f"{end} CPU", _cpu(use)))
    return facts


def _buffer_facts(stored: StoredTransfer) -> list[Fact]:
    window_bytes = None if stored.transfer is None else stored.transfer.window_bytes
    if window_bytes is None:
        return []
    facts = [("socket buffer requested", f"{figures.count(window_bytes)} bytes")]
    for end, inventory in (("sender", stored.sender_inventory), ("receiver", stored.receiver_inventory)):
        limits = {} if inventory is None else too_small(window_bytes, inventory.sysctls)
        if limits:
            allowed = figures.count(min(limits.values()))
            facts.append((f"{end}'s limit", f"{allowed} bytes; set there: {fix_text(window_bytes, limits)}"))
    return facts


def _cpu(use: CpuUse) -> str:
    text = f"used {figures.percent(use.total_ratio)}, {figures.percent(use.system_ratio)} in the kernel"
    return text if use.wanted_ratio is None else f"{text}; ran or waited to run {figures.percent(use.wanted_ratio)}"


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

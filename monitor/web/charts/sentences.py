"""Charts in a sentence, for readers who do not see them."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.analysis import figures
from monitor.archive.queries.paths import PathSummary, Series
from monitor.archive.queries.throughput.series import PathThroughput, ThroughputPoint, on_demand_tests
from monitor.web.charts.marks import Absence, LabelledSpan, TimeAxis
from monitor.web.labels import not_counted
from monitor.web.request import times


def smoke_sentence(
    name: str, window: TimeAxis, summary: PathSummary | None, series: Series, absent: dict[Absence, list[LabelledSpan]]
) -> str:
    """`RTT of cern to slac, 24 h: median 155 ms, …, loss 0.2% (12 of 6,000)…`"""
    if summary is None or summary.sent == 0:
        others: dict[Absence, list[LabelledSpan]] = {**absent, Absence.NO_DATA: []}
        return f"RTT of {name}, {length_words(window)}: no data{spans_words(window, others)}."
    told = [f"median {figures.milliseconds(summary.rtt_median_ms)}"] if summary.received else ["no reply"]
    highest = max(
        (point for point in series.points if point.rtt_max_ms is not None),
        key=lambda point: point.rtt_max_ms or 0.0,
        default=None,
    )
    if highest is not None:
        told.append(f"highest {figures.milliseconds(highest.rtt_max_ms)} at {times.minute(highest.at)}")
    told.append(f"loss {loss_figure(summary)} ({loss_ground(summary)})")
    worst = max(
        (point for point in series.points if point.sent > point.received),
        key=lambda point: 1.0 - point.received / point.sent,
        default=None,
    )
    if worst is not None:
        share = figures.percent(1.0 - worst.received / worst.sent)
        told.append(f"most {share} in the interval at {times.minute(worst.at)}")
    return f"RTT of {name}, {length_words(window)}: {', '.join(told)}{spans_words(window, absent)}."


def throughput_sentence(
    name: str, window: TimeAxis, throughput: PathThroughput | None, tests: Sequence[ThroughputPoint]
) -> str:
    """`TCP throughput of cern to slac, 24 h: median 94 Mbit/s of 23 of 24 tests, …`"""
    apart = not_counted(on_demand_tests(tests))
    if throughput is None:
        none = f"no scheduled test, {apart}" if apart else "no test"
        return f"TCP throughput of {name}, {length_words(window)}: {none}{_incidents(window)}."
    rate = f"{'median ' if throughput.is_median else ''}{figures.bit_rates(throughput.figures_bps)}"
    told = [f"{rate}, {throughput.measured} of {throughput.tests} tests", *([apart] if apart else [])]
    newest = next((test for test in reversed(tests) if test.throughput_bps is not None), None)
    if newest is not None:
        told.append(f"newest {figures.bit_rate(newest.throughput_bps)} at {times.minute(newest.at)}")
    return f"TCP throughput of {name}, {length_words(window)}: {', '.join(told)}{_incidents(window)}."


def loss_figure(summary: PathSummary) -> str:
    """Loss as a headline: 0 without loss, never a bound."""
    if summary.sent == 0:
        return figures.NO_DATA
    return figures.percent(summary.lost / summary.sent) if summary.lost > 0 else "0"


def loss_ground(summary: PathSummary) -> str:
    """Counts behind the loss, and without loss their bound."""
    return figures.loss_evidence(summary.sent, summary.received)


def length_words(window: TimeAxis) -> str:
    return figures.duration((window.until - window.since).total_seconds())


def spans_words(window: TimeAxis, absent: dict[Absence, list[LabelledSpan]]) -> str:
    """Absences and incidents, after semicolons. An outage counts only intervals without any reply."""
    told = ""
    for kind, spans in absent.items():
        length_s = sum((span.until - max(span.since, window.since)).total_seconds() for span in spans)
        if length_s > 0:
            how = "for "
            if kind is Absence.ALL_LOST:
                how = f"in {len(spans)} outages, together at least " if len(spans) > 1 else "for at least "
            told += f"; {kind.label} {how}{figures.duration(length_s)}"
    return told + _incidents(window)


def _incidents(window: TimeAxis) -> str:
    return "".join(f"; incident: {times.in_zone(span.label)}" for span in window.incidents)

"""The grid as a table: each cell's text, class and full sentence, and the body of the table as HTML.

In: a `monitor.api.grid.Grid`. The HTML is made here and not in a template since there may be 10,000 cells of it.
Every state has its own words, its own class and its own sentence for a screen reader, so that no state rests on colour.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from html import escape
from urllib.parse import urlencode

from django.utils.safestring import SafeString, mark_safe

from monitor.analysis import figures
from monitor.analysis.loss import LOSS_BAND_UPPER_RATIOS, LossBand
from monitor.api.grid import Grid, GridSite, PathFigures, State, worst
from monitor.archive.metrics import Metric

INCIDENT_SIGN = "▲"
DENSE_FROM_SITES = 16


class Choice(StrEnum):
    """The metrics that the page offers, by their names in its address."""

    LOSS = "loss"
    RTT = "rtt"
    THROUGHPUT = "throughput"

    @property
    def metric(self) -> Metric:
        return _METRICS[self]


_METRICS = {Choice.LOSS: Metric.LOSS, Choice.RTT: Metric.RTT_MEDIAN, Choice.THROUGHPUT: Metric.THROUGHPUT}


@dataclass(frozen=True, slots=True)
class Band:
    """A colour step: what is below `below` (and in no lower band), its class and what it is called."""

    below: float
    style: str
    label: str


LOSS_BANDS = (
    *(
        Band(below, f"loss-{step}", f"{name}, below {figures.percent(below)}")
        for step, (below, name) in enumerate(LOSS_BAND_UPPER_RATIOS)
    ),
    Band(float("inf"), "loss-5", f"{LossBand.BAD}, {figures.percent(LOSS_BAND_UPPER_RATIOS[-1][0])} and more"),
)

RTT_BANDS = (
    Band(10, "step-0", "below 10 ms"),
    Band(50, "step-1", "below 50 ms"),
    Band(100, "step-2", "below 100 ms"),
    Band(200, "step-3", "below 200 ms"),
    Band(400, "step-4", "below 400 ms"),
    Band(float("inf"), "step-5", "400 ms and more"),
)

THROUGHPUT_BANDS = (
    Band(100e3, "step-5", "below 100 kbit/s"),
    Band(1e6, "step-4", "below 1 Mbit/s"),
    Band(10e6, "step-3", "below 10 Mbit/s"),
    Band(100e6, "step-2", "below 100 Mbit/s"),
    Band(1e9, "step-1", "below 1 Gbit/s"),
    Band(float("inf"), "step-0", "1 Gbit/s and more"),
)

BANDS = {Metric.LOSS: LOSS_BANDS, Metric.RTT_MEDIAN: RTT_BANDS, Metric.THROUGHPUT: THROUGHPUT_BANDS}
TITLES = {Metric.LOSS: "loss", Metric.RTT_MEDIAN: "median RTT", Metric.THROUGHPUT: "measured throughput"}

SHORT_TITLES = {**TITLES, Metric.THROUGHPUT: "throughput"}

STATE_STYLES = {
    State.NONE_LOST: "none-lost",
    State.TOTAL_LOSS: "total-loss",
    State.NO_DATA: "no-data",
    State.NOT_MEASURED: "not-measured",
    State.OWN_TEST: "own-test",
    State.UNDEFINED: "no-data",
}


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A swatch of the legend: its class, the sample text in it, and what it means."""

    style: str
    sample: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Count:
    """How many cells are in a state, for the line above the grid."""

    style: str
    number: int
    meaning: str


def band(metric: Metric, value: float) -> Band:
    """The band that a value is in; its upper end is not part of it."""
    bands = BANDS[metric]
    return bands[bisect_right([one.below for one in bands[:-1]], value)]


def cell_style(metric: Metric, one: PathFigures) -> str:
    """The class of a cell: its band where there is a value, else its state."""
    if one.state is State.VALUE and one.value is not None:
        return band(metric, one.value).style
    return STATE_STYLES[one.state]


def cell_text(metric: Metric, one: PathFigures) -> str:
    """What the cell says: a number with its unit, or the state in words."""
    match one.state:
        case State.VALUE if metric is Metric.LOSS:
            return _loss(one)
        case State.VALUE if metric is Metric.RTT_MEDIAN:
            return figures.milliseconds(one.value)
        case State.VALUE:
            return figures.bit_rate(one.value)
        case State.NONE_LOST:
            return _loss(one)
        case State.TOTAL_LOSS:
            return "all lost"
        case State.NOT_MEASURED:
            return "not run" if one.outcome is None else one.outcome.replace("_", " ")
        case State.OWN_TEST:
            return "own test"
        case State.UNDEFINED:
            return "undefined"
        case State.NO_DATA:
            return "no data"


def _loss(one: PathFigures) -> str:
    return (
        figures.NO_DATA if one.sent is None or one.received is None else figures.loss(one.sent - one.received, one.sent)
    )


def sentence(metric: Metric, one: PathFigures) -> str:
    """The whole cell in one sentence, for screen readers and for the line under the pointer."""
    parts = [f"{one.source} to {one.destination}: {_finding(metric, one)}"]
    if one.family == 6:
        parts.append("IPv6")
    if one.state in (State.VALUE, State.NONE_LOST, State.TOTAL_LOSS):
        parts.extend(_evidence(metric, one))
    if one.incident_id is not None:
        parts.append("incident open")
    return ", ".join(parts)


def _finding(metric: Metric, one: PathFigures) -> str:
    match one.state:
        case State.VALUE if one.value is not None:
            label = band(metric, one.value).label.split(",")[0] if metric is Metric.LOSS else ""
            return f"{TITLES[metric]} {cell_text(metric, one)}" + (f" ({label})" if label else "")
        case State.NONE_LOST:
            return f"none lost, so loss {_loss(one)} with 95% confidence"
        case State.TOTAL_LOSS:
            return "all lost, loss 100%"
        case State.NOT_MEASURED:
            return f"not measured: {one.outcome or 'no burst could be sent'}"
        case State.OWN_TEST:
            return "only measured while our own throughput test ran, so left out"
        case _:
            return "no data"


def _evidence(metric: Metric, one: PathFigures) -> Iterator[str]:
    if metric is Metric.THROUGHPUT:
        if one.tests is not None and one.tests_measured is not None:
            yield f"median of {one.tests_measured} of {one.tests} tests"
        if one.outcome is not None:
            yield f"latest test {one.outcome.replace('_', ' ')}"
        return
    if one.sent is not None and one.received is not None:
        yield f"{one.received:,} of {one.sent:,} answered"


def body_html(grid: Grid) -> SafeString:
    """The rows of the table, one a source site. Every part of them is escaped here or is ours."""
    between: dict[tuple[str, str], list[PathFigures]] = {}
    for one in grid.figures:
        between.setdefault((one.source, one.destination), []).append(one)
    kept = escape(query(grid))
    rows = []
    for source in grid.sources:
        cells = [
            _cell_html(grid.metric, source, to, between.get((source.name, to.name)), kept) for to in grid.destinations
        ]
        heading = f'<th scope="row" title="{escape(source.title)}">{escape(source.name)}</th>'
        rows.append(f"<tr>{heading}{''.join(cells)}</tr>")
    return mark_safe("\n".join(rows))


def query(grid: Grid) -> str:
    """What a link from the grid to a path takes with it."""
    chosen: dict[str, object] = {"period": grid.period.value}
    if grid.packet_bytes is not None:
        chosen["size"] = grid.packet_bytes
    return urlencode(chosen)


def _cell_html(metric: Metric, source: GridSite, to: GridSite, paths: Sequence[PathFigures] | None, query: str) -> str:
    if source.id == to.id:
        return '<td class="same"></td>'
    if not paths:
        return '<td class="unplanned"><span aria-label="not planned">·</span></td>'
    one = paths[0] if len(paths) == 1 else worst(metric, paths)
    sign = "" if one.incident_id is None else f'<b class="sign" aria-hidden="true">{INCIDENT_SIGN}</b>'
    more = "" if len(paths) == 1 else f"<sup>{len(paths)}</sup>"
    said = sentence(metric, one) + ("" if len(paths) == 1 else f"; the worst of {len(paths)} paths")
    style = cell_style(metric, one) + ("" if one.incident_id is None else " incident")
    return (
        f'<td class="{style}"><a id="p{one.path_id}" href="/paths/{one.path_id}/?{query}" aria-label="{escape(said)}">'
        f"{sign}{_with_small_unit(cell_text(metric, one))}{more}</a></td>"
    )


def _with_small_unit(text: str) -> str:
    number, space, unit = text.rpartition(" ")
    if space and unit in ("ms", "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"):
        return f"{escape(number)} <small>{unit}</small>"
    return escape(text)


def legend(metric: Metric) -> list[LegendEntry]:
    """What each colour and sign means, for this metric."""
    entries = [LegendEntry(one.style, "", one.label) for one in BANDS[metric]]
    if metric is Metric.LOSS:
        entries.append(LegendEntry("none-lost", "< 0.3%", "none lost: below 3/N"))
    if metric is not Metric.THROUGHPUT:
        entries.append(LegendEntry("total-loss", "all lost", "sent, nothing came back"))
    return [
        *entries,
        LegendEntry("no-data", "no data", "nothing arrived"),
        LegendEntry("not-measured", "not run", "could not be measured"),
        LegendEntry("incident", INCIDENT_SIGN, "incident open"),
    ]


def counts(grid: Grid) -> list[Count]:
    """How many paths there are, and how many of them are in trouble; trouble that no path is in is left out."""
    states = [one.state for one in grid.figures]
    found = [
        Count("paths", len(states), "path" if len(states) == 1 else "paths"),
        Count("total-loss", states.count(State.TOTAL_LOSS), "all lost"),
        Count("not-measured", states.count(State.NOT_MEASURED), "not measured"),
        Count("no-data", states.count(State.NO_DATA), "without data"),
        Count("incident", sum(one.incident_id is not None for one in grid.figures), "in an incident"),
    ]
    return [found[0], *(count for count in found[1:] if count.number > 0)]

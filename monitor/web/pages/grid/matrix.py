"""The grid as a table: each cell's text, class and full sentence, and the body of the table as HTML.

In: a `monitor.overview.grid.Grid`. The HTML is made here and not in a template since there may be 10,000 cells of it.
Every state has its own words, its own class and its own sentence for a screen reader, so that no state rests on colour.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import urlencode

from django.utils.safestring import SafeString, mark_safe

from monitor.analysis import figures
from monitor.archive.queries.metrics import Metric
from monitor.overview import measures
from monitor.overview.grid import Grid, GridSite, PathFigures, State, worst
from monitor.overview.measures import MEASURES
from monitor.web.labels import outcome_label

INCIDENT_SIGN = "▲"
MAINTENANCE_SIGN = "⚒"
OWN_TEST_SIGN = "⇄"
DENSE_FROM_SITES = 16


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


def cell_style(grid: Grid, one: PathFigures) -> str:
    """The class of a cell: its band where there is a value, that of its change where changes are shown, else its
    state."""
    if grid.against is not None and one.has_figure:
        return _change_style(grid.metric, one)
    if one.state is State.VALUE and one.value is not None:
        return MEASURES[grid.metric].band(one.value).style
    return STATE_STYLES[one.state]


def _change_style(metric: Metric, one: PathFigures) -> str:
    changed = _changed(metric, one)
    if changed is None:
        return "no-data"
    if measures.is_steady(metric, changed):
        return "steady"
    return "worse" if measures.is_worse(metric, changed) else "better"


def _changed(metric: Metric, one: PathFigures) -> float | None:
    """How much the metric changed; None where it was not known before or is not now."""
    if one.value is None or one.value_before is None:
        return None
    return measures.change(metric, one.value_before, one.value)


def cell_text(grid: Grid, one: PathFigures) -> str:
    """What the cell says: a number with its unit, how it changed, or the state in words."""
    if one.has_figure:
        return _figure(grid.metric, one) if grid.against is None else _change_text(grid.metric, one)
    match one.state:
        case State.TOTAL_LOSS:
            return "all lost"
        case State.NOT_MEASURED:
            return "not run" if one.outcome is None else outcome_label(one.outcome)
        case State.OWN_TEST:
            return "during test"
        case State.UNDEFINED:
            return "undefined"
        case _:
            return figures.NO_DATA


def _figure(metric: Metric, one: PathFigures) -> str:
    if metric is Metric.LOSS:
        return _loss(one)
    floor = "≥ " if metric is Metric.ESTIMATE and one.loss_bound_ratio is not None else ""
    return figures.NO_DATA if one.value is None else floor + MEASURES[metric].words(one.value)


def _change_text(metric: Metric, one: PathFigures) -> str:
    changed = _changed(metric, one)
    return "new" if changed is None else measures.write_change(metric, changed)


def _loss(one: PathFigures) -> str:
    return (
        figures.NO_DATA if one.sent is None or one.received is None else figures.loss(one.sent - one.received, one.sent)
    )


def sentence(grid: Grid, one: PathFigures) -> str:
    """The whole cell in one sentence, for screen readers and for the line under the pointer."""
    parts = [f"{one.source} to {one.destination}: {_finding(grid, one)}"]
    if one.family == 6:
        parts.append("IPv6")
    if one.state in (State.VALUE, State.NONE_LOST, State.TOTAL_LOSS):
        parts.extend(_evidence(grid.metric, one))
    if one.incident_id is not None:
        parts.append("incident open")
    if one.in_maintenance:
        parts.append("in maintenance")
    return ", ".join(parts)


def _finding(grid: Grid, one: PathFigures) -> str:
    match one.state:
        case State.VALUE if one.value is not None:
            return _value_in_words(grid.metric, one) + _against(grid, one)
        case State.NONE_LOST:
            return f"no loss: loss {_loss(one)} with 95% confidence" + _against(grid, one)
        case State.TOTAL_LOSS:
            return "all lost: 100% loss"
        case State.NOT_MEASURED:
            return f"test failed: {'no burst could be sent' if one.outcome is None else outcome_label(one.outcome)}"
        case State.OWN_TEST:
            return "measured only during a throughput test, excluded"
        case _:
            return "no data"


def _value_in_words(metric: Metric, one: PathFigures) -> str:
    """The figure with the word for it where its band is a judgement."""
    measure = MEASURES[metric]
    word, comma, _ = measure.band(one.value or 0.0).label.partition(",")
    return f"{measure.title} {_figure(metric, one)}" + (f" ({word})" if comma else "")


def _against(grid: Grid, one: PathFigures) -> str:
    """What it was before, where the grid shows changes."""
    if grid.against is None:
        return ""
    changed = _changed(grid.metric, one)
    if changed is None or one.value_before is None:
        return f", no data of {grid.against.words}"
    before = MEASURES[grid.metric].write(one.value_before)
    if measures.is_steady(grid.metric, changed):
        return f", about the same as {grid.against.words} ({before})"
    word = "worse" if measures.is_worse(grid.metric, changed) else "better"
    return f", {word} than {grid.against.words} ({before})"


def _evidence(metric: Metric, one: PathFigures) -> Iterator[str]:
    if metric is Metric.THROUGHPUT:
        if one.tests is not None and one.tests_measured is not None:
            yield f"median of {one.tests_measured} of {one.tests} tests"
        if one.outcome is not None:
            yield f"latest test {outcome_label(one.outcome)}"
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
        cells = [_cell_html(grid, source, to, between.get((source.name, to.name)), kept) for to in grid.destinations]
        name = escape(source.name)
        heading = f'<th scope="row" title="{escape(source.title)}"><a href="/sites/{name}/">{name}</a></th>'
        rows.append(f"<tr>{heading}{''.join(cells)}</tr>")
    return mark_safe("\n".join(rows))


def query(grid: Grid) -> str:
    """What a link from the grid to a path takes with it."""
    chosen: dict[str, object] = {"period": grid.period.value}
    if grid.packet_bytes is not None:
        chosen["size"] = grid.packet_bytes
    return urlencode(chosen)


def _cell_html(grid: Grid, source: GridSite, to: GridSite, paths: Sequence[PathFigures] | None, query: str) -> str:
    if source.id == to.id:
        return '<td class="same"></td>'
    if not paths:
        return '<td class="unplanned"><span aria-label="not planned">·</span></td>'
    one = paths[0] if len(paths) == 1 else worst(grid.metric, paths)
    signs = "".join(f'<b class="{style}" aria-hidden="true">{sign}</b>' for style, sign in _signs(one))
    more = "" if len(paths) == 1 else f"<sup>{len(paths)}</sup>"
    said = sentence(grid, one) + ("" if len(paths) == 1 else f"; the worst of {len(paths)} paths")
    style = " ".join([cell_style(grid, one), *_conditions(one)])
    return (
        f'<td class="{style}"><a id="p{one.path_id}" href="/paths/{one.path_id}/?{query}" aria-label="{escape(said)}">'
        f"{signs}{_with_small_unit(cell_text(grid, one))}{more}</a></td>"
    )


def _conditions(one: PathFigures) -> list[str]:
    """What goes on at the path, beside its figure."""
    found = {"incident": one.incident_id is not None, "maintenance": one.in_maintenance}
    return [name for name, is_so in found.items() if is_so]


def _signs(one: PathFigures) -> Iterator[tuple[str, str]]:
    """Each with its style."""
    if one.incident_id is not None:
        yield "sign", INCIDENT_SIGN
    if one.in_maintenance:
        yield "sign calm", MAINTENANCE_SIGN
    if one.state is State.OWN_TEST:
        yield "sign quiet", OWN_TEST_SIGN


def _with_small_unit(text: str) -> str:
    number, space, unit = text.rpartition(" ")
    if space and unit in ("ms", "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"):
        return f"{escape(number)} <small>{unit}</small>"
    return escape(text)


def legend(grid: Grid) -> list[LegendEntry]:
    """What each colour and sign means, for this grid."""
    entries = [LegendEntry(one.style, "", one.label) for one in MEASURES[grid.metric].bands]
    if grid.against is not None:
        entries = [
            LegendEntry("better", "−" if not grid.metric.lower_is_worse else "+", f"better than {grid.against.words}"),
            LegendEntry("steady", "", "about the same"),
            LegendEntry("worse", "+" if not grid.metric.lower_is_worse else "−", f"worse than {grid.against.words}"),
        ]
    elif grid.metric is Metric.LOSS:
        entries.append(LegendEntry("none-lost", "< 0.3%", "no loss (upper bound 3/N)"))
    elif grid.metric is Metric.ESTIMATE:
        entries.append(LegendEntry("step-2", "≥", "no loss: lower bound"))
    if grid.metric is not Metric.THROUGHPUT:
        entries.append(LegendEntry("total-loss", "all lost", "100% loss"))
    return [
        *entries,
        LegendEntry("no-data", "no data", "no results received"),
        LegendEntry("not-measured", "not run", "test failed"),
        LegendEntry("own-test", f"{OWN_TEST_SIGN} during test", "measured only during a throughput test"),
        LegendEntry("incident", INCIDENT_SIGN, "incident open"),
        LegendEntry("maintenance", MAINTENANCE_SIGN, "in maintenance: alerts suppressed"),
    ]


def counts(grid: Grid) -> list[Count]:
    """How many paths there are, and how many of them are in trouble; trouble that no path is in is left out."""
    states = [one.state for one in grid.figures]
    troubled = sum(one.incident_id is not None for one in grid.figures)
    found = [
        Count("paths", len(states), "path" if len(states) == 1 else "paths"),
        Count("total-loss", states.count(State.TOTAL_LOSS), "all lost"),
        Count("not-measured", states.count(State.NOT_MEASURED), "not measured"),
        Count("no-data", states.count(State.NO_DATA), "without data"),
        Count("incident", troubled, "path with open incidents" if troubled == 1 else "paths with open incidents"),
        Count("maintenance", sum(one.in_maintenance for one in grid.figures), "in maintenance"),
    ]
    return [found[0], *(count for count in found[1:] if count.number > 0)]

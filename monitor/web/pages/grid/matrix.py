"""The grid as a table: each cell's text, class and full sentence, and the body of the table as HTML.

In: a `monitor.overview.grid.Grid`. The HTML is made here and not in a template since there may be 10,000 cells of it.
Every state has its own text, class and sentence for screen readers, so that none depends on colour.
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
from monitor.overview.grid import NOW_LENGTH, Grid, GridPeriod, GridSite
from monitor.overview.measures import MEASURES
from monitor.overview.path_figures import PathFigures, PathState, worst
from monitor.web.labels import STATE_STYLES, outcome_label, state_label

INCIDENT_SIGN = "▲"
MAINTENANCE_SIGN = "⚒"
OWN_TEST_SIGN = "⇄"
DENSE_FROM_SITES = 16

OUTAGE_SIGN = "✕"
ENDED_SIGN = "✓"


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A swatch of the legend: its class, its sample text, and its meaning."""

    style: str
    sample: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Count:
    """How many cells are in a state, for the line above the grid."""

    style: str
    number: int
    meaning: str


def cell_style(grid: Grid, path: PathFigures) -> str:
    """The class of a cell: its band where there is a value, that of its change where changes are shown, else its
    state. A figure that is of an incident that ended, for want of any since, is in no band."""
    if grid.against is not None and path.has_figure:
        return _change_style(grid.metric, path)
    if path.is_of_ended and path.state in (PathState.VALUE, PathState.TOTAL_LOSS):
        return "ended"
    if path.state is PathState.VALUE and path.value is not None:
        return MEASURES[grid.metric].band(_classed(grid.metric, path)).style
    return STATE_STYLES[path.state]


def _classed(metric: Metric, path: PathFigures) -> float:
    """The figure by which a cell is in a band: of a loss the part that is proven, so that 1 lost of 10 is not 10%."""
    value = path.value or 0.0
    return value if metric is not Metric.LOSS or path.proven_loss_ratio is None else path.proven_loss_ratio


def _change_style(metric: Metric, path: PathFigures) -> str:
    changed = _changed(metric, path)
    if changed is None:
        return "no-data"
    if measures.is_steady(metric, changed):
        return "steady"
    return "worse" if measures.is_worse(metric, changed) else "better"


def _changed(metric: Metric, path: PathFigures) -> float | None:
    """How much the metric changed; None without an earlier or a current value."""
    if path.value is None or path.value_before is None:
        return None
    return measures.change(metric, path.value_before, path.value)


def cell_text(grid: Grid, path: PathFigures) -> str:
    """The text of a cell: a number with its unit, its change, or the state in words."""
    if path.has_figure:
        return _figure(grid.metric, path) if grid.against is None else _change_text(grid.metric, path)
    return state_label(path)


def _figure(metric: Metric, path: PathFigures) -> str:
    if metric is Metric.LOSS:
        return _loss(path)
    floor = "≥ " if metric is Metric.ESTIMATE and path.loss_bound_ratio is not None else ""
    return figures.NO_DATA if path.value is None else floor + MEASURES[metric].words(path.value)


def _change_text(metric: Metric, path: PathFigures) -> str:
    changed = _changed(metric, path)
    return "new" if changed is None else measures.write_change(metric, changed)


def _loss(path: PathFigures) -> str:
    if path.sent is None or path.received is None:
        return figures.NO_DATA
    if path.state is PathState.VALUE and path.value is not None:
        return figures.percent(path.value)
    return figures.loss(path.sent - path.received, path.sent)


def sentence(grid: Grid, path: PathFigures) -> str:
    """The cell as a sentence, for screen readers and for the line above the grid."""
    parts = [f"{path.source} to {path.destination}: {_finding(grid, path)}"]
    if path.family == 6:
        parts.append("IPv6")
    if path.state in (PathState.VALUE, PathState.NONE_LOST, PathState.TOTAL_LOSS):
        parts.extend(_evidence(grid, path))
    if path.has_outage and path.bursts is not None and path.bursts_all_lost is not None:
        parts.append(f"100% loss in {path.bursts_all_lost:,} of {path.bursts:,} bursts")
    if path.incident_id is not None:
        parts.append(f"incident open{_peak(grid.metric, path, ', peak')}")
    if path.ended_at is not None:
        since = "since the " if path.is_since_end else ""
        parts.append(f"{since}incident ended {path.ended_at:%H:%M} UTC{_peak(grid.metric, path, ', was')}")
    if path.in_maintenance:
        parts.append("in maintenance")
    return ", ".join(parts)


def _finding(grid: Grid, path: PathFigures) -> str:
    match path.state:
        case PathState.VALUE if path.value is not None:
            return _value_in_words(grid.metric, path) + _whole_window(grid.metric, path) + _against(grid, path)
        case PathState.NONE_LOST:
            return f"no loss: loss {_loss(path)} with 95% confidence" + _against(grid, path)
        case PathState.TOTAL_LOSS:
            return "all lost: 100% loss"
        case PathState.NOT_MEASURED:
            return f"test failed: {'no burst could be sent' if path.outcome is None else outcome_label(path.outcome)}"
        case PathState.OWN_TEST:
            return "measured only during a throughput test, excluded"
        case _:
            return "no data"


def _value_in_words(metric: Metric, path: PathFigures) -> str:
    """The figure with the name of its band, if the band is a judgement."""
    measure, classed = MEASURES[metric], _classed(metric, path)
    word, comma, _ = measure.band(classed).label.partition(",")
    if comma and measure.band(classed) != measure.band(path.value or 0.0):
        word += f" or worse: at least {measure.write(classed)} with 95% confidence"
    return f"{measure.title} {_figure(metric, path)}" + (f" ({word})" if comma else "")


def _whole_window(metric: Metric, path: PathFigures) -> str:
    """The value over the whole window, where the cell has the level of an open incident."""
    if path.value_measured is None:
        return ""
    return f" in the newest minutes, {MEASURES[metric].write(path.value_measured)} over the whole time shown"


def _peak(metric: Metric, path: PathFigures, words: str) -> str:
    """The worst value of the path's incident after these words; empty where it is not about this metric."""
    return "" if path.value_peak is None else f"{words} {MEASURES[metric].write(path.value_peak)}"


def _against(grid: Grid, path: PathFigures) -> str:
    """The earlier value, where the grid shows changes."""
    if grid.against is None:
        return ""
    changed = _changed(grid.metric, path)
    if changed is None or path.value_before is None:
        return f", no data of {grid.against.words}"
    before = MEASURES[grid.metric].write(path.value_before)
    if measures.is_steady(grid.metric, changed):
        return f", about the same as {grid.against.words} ({before})"
    word = "worse" if measures.is_worse(grid.metric, changed) else "better"
    return f", {word} than {grid.against.words} ({before})"


def _evidence(grid: Grid, path: PathFigures) -> Iterator[str]:
    if grid.metric is Metric.THROUGHPUT:
        if path.tests is not None and path.tests_measured is not None:
            figure = "newest" if grid.period is GridPeriod.NOW else "median"
            yield f"{figure} of {path.tests_measured} of {path.tests} tests"
        if path.outcome is not None:
            yield f"latest test {outcome_label(path.outcome)}"
        return
    if path.sent is not None and path.received is not None:
        if grid.metric is Metric.LOSS and path.state is not PathState.NONE_LOST:
            yield f"{path.sent - path.received:,} of {path.sent:,} lost"
        else:
            yield f"{path.received:,} of {path.sent:,} answered"


def body_html(grid: Grid) -> SafeString:
    """The rows of the table, a row for each source site. All names from the mesh are escaped here."""
    between: dict[tuple[str, str], list[PathFigures]] = {}
    for path in grid.figures:
        between.setdefault((path.source, path.destination), []).append(path)
    kept = escape(query(grid))
    rows = []
    for source in grid.sources:
        cells = [_cell_html(grid, source, to, between.get((source.name, to.name)), kept) for to in grid.destinations]
        name = escape(source.name)
        heading = f'<th scope="row" title="{escape(source.title)}"><a href="/sites/{name}/">{name}</a></th>'
        rows.append(f"<tr>{heading}{''.join(cells)}</tr>")
    return mark_safe("\n".join(rows))


def query(grid: Grid) -> str:
    """The query of a link from the grid to a path."""
    chosen: dict[str, object] = {"period": grid.period.history.value}
    if grid.packet_bytes is not None:
        chosen["size"] = grid.packet_bytes
    return urlencode(chosen)


def _cell_html(grid: Grid, source: GridSite, to: GridSite, paths: Sequence[PathFigures] | None, query: str) -> str:
    if source.id == to.id:
        return '<td class="same"></td>'
    if not paths:
        return '<td class="unplanned"><span aria-label="not planned">·</span></td>'
    path = paths[0] if len(paths) == 1 else worst(grid.metric, paths)
    signs = "".join(f'<b class="{style}" aria-hidden="true">{sign}</b>' for style, sign in _signs(path))
    more = "" if len(paths) == 1 else f"<sup>{len(paths)}</sup>"
    said = sentence(grid, path) + ("" if len(paths) == 1 else f"; the worst of {len(paths)} paths")
    style = " ".join([cell_style(grid, path), *_conditions(path)])
    return (
        f'<td class="{style}"><a id="p{path.path_id}" href="/paths/{path.path_id}/?{query}" '
        f'aria-label="{escape(said)}">'
        f"{signs}{_with_small_unit(cell_text(grid, path))}{more}</a></td>"
    )


def _conditions(path: PathFigures) -> list[str]:
    """Classes for an open incident, an outage and maintenance on the path."""
    has_incident = path.incident_id is not None
    conditions = {
        "incident": has_incident,
        "outage": path.has_outage and not has_incident and path.ended_at is None,
        "maintenance": path.in_maintenance,
    }
    return [name for name, is_so in conditions.items() if is_so]


def _signs(path: PathFigures) -> Iterator[tuple[str, str]]:
    """Each with its style."""
    if path.incident_id is not None:
        yield "sign", INCIDENT_SIGN
    elif path.ended_at is not None:
        yield "sign calm", ENDED_SIGN
    elif path.has_outage:
        yield "sign outage", OUTAGE_SIGN
    if path.in_maintenance:
        yield "sign calm", MAINTENANCE_SIGN
    if path.state is PathState.OWN_TEST:
        yield "sign quiet", OWN_TEST_SIGN


def _with_small_unit(text: str) -> str:
    number, space, unit = text.rpartition(" ")
    if space and unit in ("ms", "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"):
        return f"{escape(number)} <small>{unit}</small>"
    return escape(text)


def period_words(grid: Grid) -> str:
    """The time that the cells are of, as in "in the last hour"."""
    if grid.period is not GridPeriod.NOW:
        return f"in the last {grid.period}"
    cycles = "three tests" if grid.metric is Metric.THROUGHPUT else "three cycles"
    return f"in the last {figures.duration(NOW_LENGTH.total_seconds())} or {cycles}, whichever is longer"


def legend(grid: Grid) -> list[LegendEntry]:
    """The meaning of each colour and sign of this grid."""
    entries = [LegendEntry(band.style, "", band.label) for band in MEASURES[grid.metric].bands]
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
        *_ended_entries(grid),
        *_outage_entries(grid),
        LegendEntry("maintenance", MAINTENANCE_SIGN, "in maintenance: alerts suppressed"),
    ]


def _ended_entries(grid: Grid) -> list[LegendEntry]:
    if grid.period is not GridPeriod.NOW:
        return []
    return [LegendEntry("ended", ENDED_SIGN, "incident ended in this time: the figure since then, if any")]


def _outage_entries(grid: Grid) -> list[LegendEntry]:
    if grid.metric is Metric.THROUGHPUT:
        return []
    return [LegendEntry("outage", OUTAGE_SIGN, "100% loss for a time: at least one burst without any reply")]


def counts(grid: Grid) -> list[Count]:
    """Number of paths, and of paths in each state of trouble; states without a path are left out."""
    states = [path.state for path in grid.figures]
    troubled = sum(path.incident_id is not None for path in grid.figures)
    entries = [
        Count("paths", len(states), "path" if len(states) == 1 else "paths"),
        Count("total-loss", states.count(PathState.TOTAL_LOSS), "all lost"),
        Count("not-measured", states.count(PathState.NOT_MEASURED), "not measured"),
        Count("no-data", states.count(PathState.NO_DATA), "without data"),
        Count("incident", troubled, "path with open incidents" if troubled == 1 else "paths with open incidents"),
        Count("maintenance", sum(path.in_maintenance for path in grid.figures), "in maintenance"),
    ]
    return [entries[0], *(count for count in entries[1:] if count.number > 0)]

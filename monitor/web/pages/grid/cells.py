"""A cell of the grid: its style, its text, its signs and its full sentence.

In: a `monitor.overview.grid.Grid` and a path of it. Every state has its own text, class and sentence for screen
readers, so that none depends on colour.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from monitor.analysis import figures
from monitor.analysis.directions import DirectionLosses
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.throughput.series import WITHOUT_MEDIAN
from monitor.overview import measures
from monitor.overview.grid import Grid, GridPeriod
from monitor.overview.measures import MEASURES, MetricFormat
from monitor.overview.path_figures import FigureState, PathFigures
from monitor.web.labels import STATE_STYLES, not_counted, outcome_label, state_label
from monitor.web.request import times

INCIDENT_SIGN = "▲"
MAINTENANCE_SIGN = "⚒"
OWN_TEST_SIGN = "⇄"
OUTAGE_SIGN = "✕"
ENDED_SIGN = "✓"
STALE_SIGN = "◷"
CHECK_SIGN = "△"
"""Of a path that is not called normal, and has no open incident so far."""
STALE_STYLE = "stale"
BOUND_STYLE = "bound"
"""The style of a lower bound, which is in no band: a path without loss may carry any rate above it."""


def measure_of_grid(grid: Grid) -> MetricFormat:
    """The format of the grid's metric, with bands that are spread over its values if the metric has none of its own.
    Lower bounds, figures of incidents that ended, and those that are not of now, have no part in it."""
    values = (
        path.value
        for path in grid.figures
        if path.value is not None
        and path.has_figure
        and not (path.is_of_ended or path.stale_at is not None or _is_bound(grid.metric, path))
    )
    return MEASURES[grid.metric].over(values, lower_is_worse=grid.metric.lower_is_worse)


def _is_bound(metric: Metric, path: PathFigures) -> bool:
    return metric is Metric.ESTIMATE and path.loss_bound_ratio is not None


def cell_style(grid: Grid, measure: MetricFormat, path: PathFigures) -> str:
    """The class of a cell: its band where there is a value, that of its change where changes are shown, else its
    state. Lower bounds are in no band, nor is the figure of an incident that ended, for want of any since, nor one that
    is not of now, for want of newer data."""
    if path.stale_at is not None and path.has_figure:
        return STALE_STYLE
    if grid.against is not None and path.has_figure:
        return _change_style(grid.metric, path)
    if path.is_of_ended and path.state in (FigureState.VALUE, FigureState.TOTAL_LOSS):
        return "ended"
    if path.state is FigureState.VALUE and path.value is not None:
        if _is_bound(grid.metric, path):
            return BOUND_STYLE
        return measure.band(_classed(grid.metric, path)).style
    return STATE_STYLES[path.state]


PROBLEM_STYLES = frozenset({"loss-3", "loss-4", "loss-5", "total-loss", "no-data", "not-measured", "worse"})


def is_problem(grid: Grid, measure: MetricFormat, path: PathFigures) -> bool:
    """Whether "problems only" shows the path: an open incident, or what may become one, 100% loss for a time, a figure
    in one of the three worst bands of loss or MOS or worse than before, a failed test, no results, or no newer data."""
    if path.incident_id is not None or path.has_outage or grid.is_being_checked(path.path_id):
        return True
    is_late = path.stale_at is not None and not path.is_set_aside
    return is_late or cell_style(grid, measure, path) in PROBLEM_STYLES


def compact_sign(grid: Grid, style: str, path: PathFigures) -> str:
    """The sign of a cell without text, so that trouble is not told by colour alone."""
    if path.incident_id is not None:
        return INCIDENT_SIGN
    if grid.is_being_checked(path.path_id):
        return CHECK_SIGN
    if style == "total-loss" or path.has_outage:
        return OUTAGE_SIGN
    if path.in_maintenance:
        return MAINTENANCE_SIGN
    if style == STALE_STYLE and path.is_set_aside:
        return OWN_TEST_SIGN
    return _COMPACT_SIGNS.get(style, "")


_COMPACT_SIGNS = {
    **dict.fromkeys(("loss-3", "loss-4", "loss-5", "worse"), "!"),
    "not-measured": "–",
    "no-data": "?",
    "own-test": OWN_TEST_SIGN,
    "ended": ENDED_SIGN,
    STALE_STYLE: STALE_SIGN,
}


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
    floor = "≥ " if _is_bound(metric, path) else ""
    return figures.NO_DATA if path.value is None else floor + MEASURES[metric].words(path.value)


def _change_text(metric: Metric, path: PathFigures) -> str:
    changed = _changed(metric, path)
    return "new" if changed is None else measures.write_change(metric, changed)


def _loss(path: PathFigures) -> str:
    if path.sent is None or path.received is None:
        return figures.NO_DATA
    if path.state is FigureState.VALUE and path.value is not None:
        return figures.percent(path.value) if path.value_loss is None else path.value_loss.short_text
    return "0" if path.state is FigureState.NONE_LOST else figures.loss(path.sent - path.received, path.sent)


def sentence(grid: Grid, path: PathFigures) -> str:
    """The cell as a sentence, for screen readers and for the line above the grid."""
    parts = [f"{path.source} to {path.destination}: {_finding(grid, path)}"]
    if path.stale_at is not None:
        newer = "newer pings sent during throughput tests, excluded" if path.is_set_aside else "no newer data"
        parts.append(f"as of {times.clock_second(path.stale_at)}, {newer}")
    if path.family == 6:
        parts.append("IPv6")
    if path.measured_by is not None:
        parts.append(f"by {path.measured_by}")
    if path.state in (FigureState.VALUE, FigureState.NONE_LOST, FigureState.TOTAL_LOSS):
        parts.extend(_evidence(grid, path))
    if path.tests_on_demand is not None:
        parts.append(not_counted(path.tests_on_demand))
    if path.directions is not None:
        parts.append(_by_direction(path.directions))
    if path.has_outage and path.bursts is not None and path.bursts_all_lost is not None:
        parts.append(f"100% loss in {path.bursts_all_lost:,} of {path.bursts:,} bursts")
    if path.incident_id is not None:
        # Beside an incident that ended, the open one is not about this metric, and the worst is of the other.
        parts.append(f"incident open{_peak(grid.metric, path, ', peak') if path.ended_at is None else ''}")
    if path.ended_at is not None:
        parts.append(_ended(grid, path, path.ended_at))
    parts.extend(_checks(grid, path))
    if path.in_maintenance:
        parts.append("in maintenance")
    return ", ".join(parts)


def _is_silent_again(path: PathFigures) -> bool:
    """Whether all its packets are lost since an incident that ended."""
    return path.ended_at is not None and path.state is FigureState.TOTAL_LOSS and not path.is_of_ended


def _ended(grid: Grid, path: PathFigures, ended_at: datetime) -> str:
    """The end of the path's last incident, and whether its figure is since then. An outage has a time of its own."""
    is_open = any(incident.pk == path.ended_incident_id for incident in grid.open_incidents)
    what = "this path's part of an open incident" if is_open else "incident"
    if path.is_since_end and not _is_silent_again(path):
        what = f"since {what}" if is_open else f"since the {what}"
    return f"{what} ended {times.clock_minute(ended_at)}{_peak(grid.metric, path, ', was')}"


def _finding(grid: Grid, path: PathFigures) -> str:
    match path.state:
        case FigureState.VALUE if path.value is not None:
            return _value_in_words(grid.metric, path) + _whole_window(grid.metric, path) + _against(grid, path)
        case FigureState.NONE_LOST if path.value_loss is not None:
            return f"{_none_lost(path)} ({path.value_loss.text}){_whole_window(grid.metric, path)}"
        case FigureState.NONE_LOST:
            return f"{_none_lost(path)}: {figures.none_lost(path.sent or 0)}" + _against(grid, path)
        case FigureState.TOTAL_LOSS if path.unanswered_since is not None:
            return f"all lost: no reply since {times.clock_second(path.unanswered_since)}"
        case FigureState.TOTAL_LOSS:
            return "all lost: 100% loss"
        case FigureState.NOT_MEASURED:
            return f"test failed: {'no burst could be sent' if path.outcome is None else outcome_label(path.outcome)}"
        case FigureState.OWN_TEST:
            return "measured only during a throughput test, excluded"
        case _:
            return "no data"


def _none_lost(path: PathFigures) -> str:
    """No loss, unless STAMP packets of the same time were lost: only of its round trips there was none then."""
    of_stamp = path.directions
    is_lossy = of_stamp is not None and (of_stamp.forward_lost or of_stamp.reverse_lost or of_stamp.undecided)
    return "no round trip lost" if is_lossy else "no loss"


def _value_in_words(metric: Metric, path: PathFigures) -> str:
    """The figure with the name of its band, if the band is a judgement."""
    measure, classed = MEASURES[metric], _classed(metric, path)
    if measure.is_spread:
        return f"{measure.title} {_figure(metric, path)}"
    word, comma, _ = measure.band(classed).label.partition(",")
    if comma and measure.band(classed) != measure.band(path.value or 0.0):
        word += f" or worse: at least {measure.write(classed)} with 95% confidence"
    figure = _figure(metric, path) if path.value_loss is None else path.value_loss.text
    return f"{measure.title} {figure}" + (f" ({word})" if comma else "")


def _whole_window(metric: Metric, path: PathFigures) -> str:
    """The value over the whole window, where the cell has the level of an open incident."""
    if path.value_measured is None:
        return ""
    return f"{_of_level(path)}, {MEASURES[metric].write(path.value_measured)} over the whole time shown"


def _of_level(path: PathFigures) -> str:
    """The packets of a level: they begin within a loss that lasts, so their begin is not that of the loss. Those of a
    loss that is being checked are in its own words."""
    if path.level_since is None:
        return " in the newest minutes" if path.value_lower_ratio is None else ""
    return f" in the packets since {times.clock_second(path.level_since)}"


def _peak(metric: Metric, path: PathFigures, words: str) -> str:
    """The worst value of the path's incident after these words; empty where it is not about this metric, or a loss
    that packets do not prove to be above that of now."""
    if path.value_peak is None:
        return ""
    return f"{words} {MEASURES[metric].write(path.value_peak) if path.worst_loss is None else path.worst_loss.text}"


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
            is_newest = grid.period is GridPeriod.NOW or path.tests_measured == WITHOUT_MEDIAN
            figure = "newest" if is_newest else "median"
            yield f"{figure} of {path.tests_measured} of {path.tests} tests"
        if path.outcome is not None:
            yield f"latest test {outcome_label(path.outcome)}"
        return
    if path.sent is not None and path.received is not None:
        if grid.metric is Metric.LOSS:
            if path.sent > path.received and path.value_lower_ratio is not None and len(grid.packet_sizes) > 1:
                lost = figures.count(path.sent - path.received)
                yield f"{lost} of {figures.count(path.sent)} packets of {grid.packet_bytes} bytes lost"
            elif path.sent > path.received:
                yield figures.loss_evidence(path.sent, path.received)
        else:
            yield f"{path.received:,} of {path.sent:,} answered"


def _checks(grid: Grid, path: PathFigures) -> Iterator[str]:
    """The loss that is being checked on the path, or one that was checked and has ended."""
    if grid.checked is not None and grid.is_being_checked(path.path_id):
        yield grid.checked.words_in_cell(path.path_id, _packets_of_all(grid))
    if grid.checked is not None and grid.is_loss_over(path.path_id):
        yield grid.checked.words_of_ended(path.path_id, _packets_of_all(grid))


def _packets_of_all(grid: Grid) -> str:
    """The packets that a check counts, beside those of the grid, which are of a single size."""
    if len(grid.packet_sizes) < 2:
        return "packets"
    return f"packets of {'both' if len(grid.packet_sizes) == 2 else 'all'} sizes"


def _by_direction(losses: DirectionLosses) -> str:
    """Forward 20 of 300 lost, reverse 0 of 280, so below 1.1% (95%), by STAMP."""
    ways = (("forward", losses.forward), ("reverse", losses.reverse))
    if losses.undecided:
        told = [f"{name} {way.lost:,} of {way.sent:,} lost" for name, way in ways if way.sent]
        return f"{', '.join(told)}, the direction of {losses.undecided:,} more lost is not known, by STAMP"
    told = [f"{name} {figures.loss_evidence(way.sent, way.sent - way.lost)}" for name, way in ways if way.sent]
    return f"{', '.join(told)}, by STAMP"


def conditions(path: PathFigures) -> list[str]:
    """Classes for an open incident, an outage and maintenance on the path."""
    has_incident = path.incident_id is not None
    conditions = {
        "incident": has_incident,
        "outage": path.has_outage and not has_incident and path.ended_at is None,
        "maintenance": path.in_maintenance,
    }
    return [name for name, is_so in conditions.items() if is_so]


def signs(grid: Grid, path: PathFigures) -> Iterator[tuple[str, str]]:
    """Each with its style."""
    if path.incident_id is not None:
        yield "sign", INCIDENT_SIGN
    elif grid.is_being_checked(path.path_id):
        yield "sign", CHECK_SIGN
    elif _is_silent_again(path):
        yield "sign outage", OUTAGE_SIGN
    elif path.ended_at is not None or grid.is_loss_over(path.path_id):
        yield "sign calm", ENDED_SIGN
    elif path.has_outage:
        yield "sign outage", OUTAGE_SIGN
    if path.in_maintenance:
        yield "sign calm", MAINTENANCE_SIGN
    if path.state is FigureState.OWN_TEST:
        yield "sign quiet", OWN_TEST_SIGN
    if path.stale_at is not None:
        yield "sign quiet", OWN_TEST_SIGN if path.is_set_aside else STALE_SIGN

"""Style, text, signs and sentence of a grid cell (docs/pages.md).

Each state has its own text, class and sentence: none depends on colour.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from monitor.analysis import figures
from monitor.analysis.directions import DirectionLosses
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.throughput.series import WITHOUT_MEDIAN
from monitor.overview import measures
from monitor.overview.cell_now import end_of
from monitor.overview.grid import NOW_LENGTH, Grid, GridPeriod
from monitor.overview.measures import MEASURES, MetricFormat
from monitor.overview.path_figures import FigureState, PathFigures
from monitor.present import words
from monitor.present.conditions import CALM, Condition
from monitor.present.read import PresentPath
from monitor.present.track import Signal, Track
from monitor.web.labels import STATE_STYLES, not_counted, outcome_label, state_label
from monitor.web.request import times

INCIDENT_SIGN = "▲"
MAINTENANCE_SIGN = "⚒"
OWN_TEST_SIGN = "⇄"
OUTAGE_SIGN = "✕"
ENDED_SIGN = "✓"
STALE_SIGN = "◷"
FLAPS_SIGN = "⇅"
# Of a path in trouble, proven or suspected, without an open incident so far.
CHECK_SIGN = "△"
STALE_STYLE = "stale"
# Conditions in which a figure is not of now.
STALE = (Condition.OVERDUE, Condition.OWN_TESTS)
# Of a figure in no band: a lower bound, or a loss of too few packets.
BOUND_STYLE = "bound"
# A path that is down every now and then loses more than the worst band.
FLAPS_STYLE = "loss-5"
TOO_FEW = "too few"


def measure_of_grid(grid: Grid) -> MetricFormat:
    """Format of the metric, with bands over the grid's values except lower bounds and old figures."""
    values = (
        path.value
        for path in grid.figures
        if path.value is not None
        and path.has_figure
        and not (grid.condition_of(path) in STALE or _is_bound(grid.metric, path))
    )
    return MEASURES[grid.metric].over(values, lower_is_worse=grid.metric.lower_is_worse)


def _is_bound(metric: Metric, path: PathFigures) -> bool:
    return metric is Metric.ESTIMATE and path.loss_bound_ratio is not None


def _is_own(grid: Grid, path: PathFigures, condition: Condition) -> bool:
    return grid.metric is Metric.LOSS and grid.condition_of(path) is condition and path.has_figure


def cell_style(grid: Grid, measure: MetricFormat, path: PathFigures) -> str:
    """Class of a cell: band or change, else state. Lower bounds, losses of too few packets and old figures have no
    band."""
    if grid.condition_of(path) in STALE and path.has_figure:
        return STALE_STYLE
    if _is_own(grid, path, Condition.AWAITED) or other_trouble(grid, path):
        return BOUND_STYLE
    if _is_own(grid, path, Condition.FLAPS):
        return FLAPS_STYLE
    if grid.against is not None and path.has_figure:
        return _change_style(grid.metric, path)
    if path.state is FigureState.VALUE and path.value is not None:
        if _is_bound(grid.metric, path):
            return BOUND_STYLE
        return measure.band(_classed(grid.metric, path)).style
    return STATE_STYLES[path.state]


PROBLEM_STYLES = frozenset({"loss-3", "loss-4", "loss-5", "total-loss", "no-data", "not-measured", "worse"})


def is_problem(grid: Grid, measure: MetricFormat, path: PathFigures) -> bool:
    """Whether "problems only" shows the path: trouble, outage, a bad or worse figure, failed test, no or old data."""
    if path.incident_id is not None or path.has_outage or path.is_in_trouble:
        return True
    return grid.condition_of(path) is Condition.OVERDUE or cell_style(grid, measure, path) in PROBLEM_STYLES


def compact_sign(grid: Grid, style: str, path: PathFigures) -> str:
    """Sign of a cell without text: trouble is not told by colour alone."""
    if has_incident(grid, path):
        return INCIDENT_SIGN
    if path.is_in_trouble:
        return CHECK_SIGN
    if style == "total-loss" or path.has_outage:
        return OUTAGE_SIGN
    if _is_set_aside(grid, path):
        return MAINTENANCE_SIGN
    if style == STALE_STYLE and grid.condition_of(path) is Condition.OWN_TESTS:
        return OWN_TEST_SIGN
    return _COMPACT_SIGNS.get(style, "")


_COMPACT_SIGNS = {
    **dict.fromkeys(("loss-3", "loss-4", "loss-5", "worse"), "!"),
    "not-measured": "–",
    "no-data": "?",
    "own-test": OWN_TEST_SIGN,
    STALE_STYLE: STALE_SIGN,
}


def _is_set_aside(grid: Grid, path: PathFigures) -> bool:
    return path.in_maintenance or grid.condition_of(path) is Condition.SET_ASIDE


def _classed(metric: Metric, path: PathFigures) -> float:
    """Figure that decides the band."""
    value = path.value or 0.0
    # The proven part of a loss, so that 1 lost of 10 is not 10%.
    return value if metric is not Metric.LOSS or path.proven_loss_ratio is None else path.proven_loss_ratio


def _change_style(metric: Metric, path: PathFigures) -> str:
    changed = _changed(metric, path)
    if changed is None:
        return "no-data"
    if measures.is_steady(metric, changed):
        return "steady"
    return "worse" if measures.is_worse(metric, changed) else "better"


def _changed(metric: Metric, path: PathFigures) -> float | None:
    if path.value is None or path.value_before is None:
        return None
    return measures.change(metric, path.value_before, path.value)


def other_trouble(grid: Grid, path: PathFigures) -> str:
    """The name of a path's trouble that is not the loss of its cell; else empty."""
    condition = grid.condition_of(path)
    if grid.metric is not Metric.LOSS or condition is None or condition > Condition.AWAITED or not path.is_in_trouble:
        return ""
    assert path.present is not None
    return _name_of(path.present.worst)


def _name_of(track: Track) -> str:
    """`1,000 B`, `RTT`, `forward`."""
    size = track.packet_bytes_lost
    return _OTHER.get(track.signal, "") or (f"{figures.count(size)} B" if size else track.way)


_OTHER = {
    Signal.RTT: "RTT", Signal.JITTER: "jitter", Signal.RATE: "throughput", Signal.RESPONSE: "responses",
    Signal.OTHER: "delays",
}  # fmt: skip


def has_incident(grid: Grid, path: PathFigures) -> bool:
    """Whether a path has an open incident that is not over."""
    return path.incident_id is not None and not is_over(grid, path)


def is_over(grid: Grid, path: PathFigures) -> bool:
    """Whether a path is normal again after a recent trouble."""
    present, since = path.present, grid.since if grid.is_now else grid.until - NOW_LENGTH
    if present is None or present.condition not in CALM:
        return False
    return any(end_of(track, since) is not None for track in present.tracks)


def cell_text(grid: Grid, path: PathFigures) -> str:
    if other := other_trouble(grid, path):
        return other
    return own_text(grid, path)


def own_text(grid: Grid, path: PathFigures) -> str:
    if _is_own(grid, path, Condition.FLAPS):
        return "flaps"
    if _is_own(grid, path, Condition.AWAITED):
        return TOO_FEW
    if path.has_figure:
        return _figure(grid, path) if grid.against is None else _change_text(grid.metric, path)
    return "waiting" if _is_waiting(grid, path) else state_label(path)


def _is_waiting(grid: Grid, path: PathFigures) -> bool:
    return path.state is FigureState.NO_DATA and grid.condition_of(path) is Condition.AWAITED


def _figure(grid: Grid, path: PathFigures) -> str:
    if grid.metric is Metric.LOSS:
        return _loss(grid, path)
    floor = "≥ " if _is_bound(grid.metric, path) else ""
    return figures.NO_DATA if path.value is None else floor + MEASURES[grid.metric].words(path.value)


def _change_text(metric: Metric, path: PathFigures) -> str:
    changed = _changed(metric, path)
    return "new" if changed is None else measures.write_change(metric, changed)


def _loss(grid: Grid, path: PathFigures) -> str:
    if path.sent is None or path.received is None:
        return figures.NO_DATA
    interval = _interval(grid, path)
    if path.state is FigureState.NONE_LOST or interval:
        return interval or "0"
    now = _now(grid, path)
    of_window = figures.loss(path.sent - path.received, path.sent)
    return of_window if now is None else words.lost_text(now.lost).replace("about ", "~")


def _interval(grid: Grid, path: PathFigures) -> str:
    track = grid.track_of(path)
    # Just after an end the interval is wide; the cell tells the end instead.
    if track is None or track.interval is None or grid.ended_at(path) is not None:
        return ""
    return figures.percent_interval(*track.interval)


def _now(grid: Grid, path: PathFigures) -> LossSegment | None:
    level = grid.level_of(path)
    return level if isinstance(level, LossSegment) and level.lost.sent else None


def sentence(grid: Grid, path: PathFigures) -> str:
    """A cell in words: its present, the counts of the time shown, and STAMP's directions."""
    incident = "incident over, waiting to close" if is_over(grid, path) else "incident open"
    tags = [
        *(["IPv6"] if path.family == 6 else []),
        *([] if path.measured_by is None else [f"by {path.measured_by}"]),
        *([] if path.incident_id is None else [incident]),
        *(["in maintenance"] if _is_set_aside(grid, path) else []),
    ]
    on_demand = [] if path.tests_on_demand is None else [not_counted(path.tests_on_demand)]
    parts = [", ".join([_present(grid, path), *tags]), ", ".join([*_counts(grid, path), *on_demand])]
    parts += [] if path.directions is None else [_by_direction(path.directions)]
    return f"{path.source} to {path.destination}: {SEPARATOR.join(filter(None, parts))}"


# Between the parts of a sentence, as between the parts of all lines of figures.
SEPARATOR = " · "


def _present(grid: Grid, path: PathFigures) -> str:
    own = _of_now(grid, path)
    if not path.is_in_trouble or path.present is None:
        return own
    now = f"{path.present.worst.way} {clause(path.present, grid.until)}".strip()
    if grid.period is not GridPeriod.NOW:
        return f"{own}, now {now}"
    condition, size = grid.condition_of(path), path.present.worst.packet_bytes_lost and grid.packet_bytes
    if condition is not None and condition.is_trouble:
        return own
    return f"{now}; {figures.count(size)} B: {own}" if size else f"{now}; {own}"


def _of_now(grid: Grid, path: PathFigures) -> str:
    condition, track = grid.condition_of(path), grid.track_of(path)
    if condition in STALE and track is not None and path.has_figure:
        newer = (
            "no newer data" if condition is Condition.OVERDUE else "newer pings sent during throughput tests, excluded"
        )
        return f"as of {times.clock_of(track.newest_s, grid.until)}, {newer}: {_finding(grid, path)}"
    if _is_waiting(grid, path):
        return "waiting for the first results"
    if _is_own(grid, path, Condition.AWAITED):
        return "too few packets so far"
    if condition is not None and condition.is_trouble and path.state is not FigureState.NO_DATA:
        return clause(_alone(grid, path, condition), grid.until)
    if grid.ended_at(path) is not None and track is not None and path.has_figure:
        return f"{_finding(grid, path)}, {clause(_alone(grid, path, None), grid.until)}"
    return _finding(grid, path)


def _alone(grid: Grid, path: PathFigures, condition: Condition | None) -> PresentPath | None:
    own, of_path = grid.track_of(path), None if path.present is None else path.present.track(Signal.LOSS)
    track = own if own is not None and condition in (None, own.condition) else of_path
    # The grid is of this packet size, which needs no words.
    alone = None if track is None else replace(track, packet_bytes=0)
    return None if alone is None else PresentPath(path.path_id, alone.condition, (alone,))


def clause(present: PresentPath | None, at: datetime) -> str:
    return "" if present is None else words.clause("", [present], at=at).lstrip(": ")


def _finding(grid: Grid, path: PathFigures) -> str:
    if path.has_figure and (interval := _interval(grid, path)):
        return f"{MEASURES[grid.metric].title} {interval}{_against(grid, path)}"
    match path.state:
        case FigureState.VALUE if path.value is not None:
            return _value_in_words(grid, path) + _against(grid, path)
        case FigureState.NONE_LOST:
            now = _now(grid, path)
            level = "" if now is None else f": {_of_level(now, grid.until)}"
            return f"{_none_lost(path)}{level}{_against(grid, path)}"
        case FigureState.TOTAL_LOSS:
            return "all lost: 100% loss"
        case FigureState.NOT_MEASURED:
            return f"test failed: {'no burst could be sent' if path.outcome is None else outcome_label(path.outcome)}"
        case FigureState.OWN_TEST:
            return "measured only during a throughput test, excluded"
        case _:
            return "no data"


def _of_level(now: LossSegment, at: datetime) -> str:
    """`0 of 472 since 13:50:12 UTC`."""
    return f"{words.lost_text(now.lost)} since {times.clock_of(now.since.at_s, at)}"


def _none_lost(path: PathFigures) -> str:
    of_stamp = path.directions
    # STAMP packets of the same time may be lost: then only round trips had no loss.
    is_lossy = of_stamp is not None and (of_stamp.forward_lost or of_stamp.reverse_lost or of_stamp.undecided)
    return "no round trip lost" if is_lossy else "no loss"


def _value_in_words(grid: Grid, path: PathFigures) -> str:
    measure, classed = MEASURES[grid.metric], _classed(grid.metric, path)
    now = _now(grid, path)
    if now is not None:
        return f"{measure.title} {_of_level(now, grid.until)}"
    if measure.is_spread:
        return f"{measure.title} {_figure(grid, path)}"
    word, comma, _ = measure.band(classed).label.partition(",")
    if comma and measure.band(classed) != measure.band(path.value or 0.0):
        word += f" or worse: at least {measure.write(classed)} with 95% confidence"
    return f"{measure.title} {_figure(grid, path)}" + (f" ({word})" if comma else "")


def _against(grid: Grid, path: PathFigures) -> str:
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


def _counts(grid: Grid, path: PathFigures) -> Iterator[str]:
    if path.state not in (FigureState.VALUE, FigureState.NONE_LOST, FigureState.TOTAL_LOSS):
        return
    if grid.metric is Metric.THROUGHPUT:
        yield from _of_tests(grid, path)
    elif path.sent and path.received is not None:
        yield f"{_of_packets(grid, path)}{_window(grid)}"
    if path.has_outage and path.bursts is not None and path.bursts_all_lost is not None:
        yield f"100% loss in {path.bursts_all_lost:,} of {path.bursts:,} bursts"


def _of_packets(grid: Grid, path: PathFigures) -> str:
    assert path.sent is not None
    assert path.received is not None
    if grid.metric is not Metric.LOSS:
        median = "" if path.value_measured is None else f"median {MEASURES[grid.metric].write(path.value_measured)}, "
        return f"{median}{path.received:,} of {path.sent:,} answered"
    return figures.loss_evidence(path.sent, path.received)


def _window(grid: Grid) -> str:
    if grid.period is not GridPeriod.NOW:
        return ""
    minutes = figures.duration(NOW_LENGTH.total_seconds())
    return f" in the last {minutes}" if grid.until - grid.since <= NOW_LENGTH else f" in the last {minutes} or 3 cycles"


def _of_tests(grid: Grid, path: PathFigures) -> Iterator[str]:
    if path.tests is not None and path.tests_measured is not None:
        is_newest = grid.period is GridPeriod.NOW or path.tests_measured == WITHOUT_MEDIAN
        yield f"{'newest' if is_newest else 'median'} of {path.tests_measured} of {path.tests} tests"
    if path.outcome is not None:
        yield f"latest test {outcome_label(path.outcome)}"


def _by_direction(losses: DirectionLosses) -> str:
    # Forward 20 of 300 lost, reverse 0 of 280, so below 1.1% (95%), by STAMP.
    ways = (("forward", losses.forward), ("reverse", losses.reverse))
    if losses.undecided:
        told = [f"{name} {way.lost:,} of {way.sent:,} lost" for name, way in ways if way.sent]
        return f"{', '.join(told)}, the direction of {losses.undecided:,} more lost is not known, by STAMP"
    told = [f"{name} {figures.loss_evidence(way.sent, way.sent - way.lost)}" for name, way in ways if way.sent]
    return f"{', '.join(told)}, by STAMP"


def conditions(grid: Grid, path: PathFigures) -> list[str]:
    conditions = {
        "incident": has_incident(grid, path),
        "outage": path.has_outage and path.incident_id is None and grid.ended_at(path) is None,
        "maintenance": _is_set_aside(grid, path),
    }
    return [name for name, is_so in conditions.items() if is_so]


def signs(grid: Grid, path: PathFigures) -> Iterator[tuple[str, str]]:
    condition = grid.condition_of(path)
    if has_incident(grid, path):
        yield "sign", INCIDENT_SIGN
    elif path.is_in_trouble:
        yield "sign", CHECK_SIGN
    elif grid.ended_at(path) is not None or is_over(grid, path):
        yield "sign calm", ENDED_SIGN
    elif path.has_outage:
        yield "sign outage", OUTAGE_SIGN
    if condition is Condition.FLAPS:
        yield "sign", FLAPS_SIGN
    if _is_set_aside(grid, path):
        yield "sign calm", MAINTENANCE_SIGN
    if path.state is FigureState.OWN_TEST or (condition is Condition.OWN_TESTS and path.has_figure):
        yield "sign quiet", OWN_TEST_SIGN
    elif condition is Condition.OVERDUE and path.has_figure:
        yield "sign quiet", STALE_SIGN

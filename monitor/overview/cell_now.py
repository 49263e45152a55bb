"""Level and condition of a grid cell's track, which replace window figures in the period now.
`monitor.present.conditions` decides them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from monitor.analysis import binomial
from monitor.analysis.changes.present import LostPackets
from monitor.analysis.segments.delay_segments import DelaySegment
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.archive.queries.metrics import Metric
from monitor.overview.path_figures import FigureState, PathFigures
from monitor.present.conditions import Condition
from monitor.present.read import PresentPath
from monitor.present.track import AnySegment, Signal, Track

# At the end of an outage only its first reply is known: earlier packets count no more.
FIRST_REPLY = LostPackets(1.0, 0.0)


@dataclass(frozen=True, slots=True)
class CellNow:
    """The values of a cell besides its level, by its track."""

    since: datetime | None = None  # start of the level
    level_s: float | None = None  # length of the level at the newest burst
    value_peak: float | None = None  # worst of the lasting or ended trouble, if above the level
    ended_at: datetime | None = None
    unanswered_since: datetime | None = None  # last reply of a path without replies
    value_sent: int | None = None  # packets of the value; None without
    value_received: int | None = None

    @property
    def is_since_end(self) -> bool:
        return self.ended_at is not None


def track_of(metric: Metric, packet_bytes: int | None, present: PresentPath | None) -> Track | None:
    """Track of a cell: of its packet size if the loss differs by size, else of all packets; None for a metric without
    tracks."""
    if present is None or metric not in (Metric.LOSS, Metric.RTT_MEDIAN):
        return None
    track = present.track(Signal.LOSS if metric is Metric.LOSS else Signal.RTT)
    is_by_size = metric is Metric.LOSS and track is not None and track.packet_bytes_lost
    return present.track(Signal.LOSS, packet_bytes or 0) if is_by_size else track


def level_of(track: Track | None, since: datetime) -> AnySegment | None:
    """The segment of the figure of now; None if it tells too little, or is normal since before this moment."""
    if track is None or track.now is None:
        return None
    is_old = track.condition is Condition.NORMAL and track.now.since.at_s < since.timestamp()
    return None if is_old or track.condition is Condition.AWAITED else track.now


def rtt_begins(begins: Mapping[int, datetime], presents: Mapping[int, PresentPath | None]) -> dict[int, datetime]:
    """The starts of RTTs of sizes without a track: no packets from before the level of the smallest."""
    levels = {
        path_id: level_of(track_of(Metric.RTT_MEDIAN, None, presents.get(path_id)), begin)
        for path_id, begin in begins.items()
    }
    since = {path_id: datetime.fromtimestamp(of.since.at_s, UTC) for path_id, of in levels.items() if of is not None}
    return {path_id: max(begin, since.get(path_id, begin)) for path_id, begin in begins.items()}


def condition_of(metric: Metric, packet_bytes: int | None, present: PresentPath | None) -> Condition | None:
    """The condition of a cell's own track, or the path's if worse, unless that is only suspect or bad."""
    of_path = None if present is None else present.track(Signal.LOSS)
    if of_path is None or metric is Metric.THROUGHPUT:
        return None
    track = track_of(metric, packet_bytes, present)
    own = Condition.NORMAL if track is None else track.condition
    return own if of_path.condition in (Condition.SUSPECT, Condition.BAD) else max(own, of_path.condition)


def end_of(track: Track | None, since: datetime) -> datetime | None:
    """End of a track's trouble, if after `since`; a flapping path is in trouble between outages."""
    end = None if track is None or track.condition.is_trouble else track.end
    return None if end is None or end.at_s < since.timestamp() else datetime.fromtimestamp(end.at_s, UTC)


def cell_now(
    metric: Metric, packet_bytes: int | None, path: PathFigures, track: Track | None, since: datetime
) -> CellNow:
    """The values of the cell's track besides its level, without ends before `since`."""
    of_window = CellNow(value_sent=path.sent, value_received=path.received)
    if track is None or track.now is None:
        return of_window
    begin, ended_at = datetime.fromtimestamp(track.now.since.at_s, UTC), end_of(track, since)
    told = track.trouble if track.condition.is_trouble or ended_at is not None else ()
    level_s = max(0.0, track.newest_s - track.now.since.at_s)
    if isinstance(track.now, DelaySegment):
        worst_ms = max((segment.worst_ms for segment in told if isinstance(segment, DelaySegment)), default=0.0)
        return replace(
            of_window,
            since=begin,
            level_s=level_s,
            value_peak=worst_ms if worst_ms > track.now.median_ms else None,
            ended_at=ended_at,
        )
    assert isinstance(track.now, LossSegment)
    lost = track.now.lost
    is_dead = condition_of(metric, packet_bytes, path.present) is Condition.DEAD
    is_level = level_of(track, since) is not None
    of_value = (round(lost.sent), round(lost.sent - lost.lost)) if is_level else (path.sent, path.received)
    return CellNow(
        begin,
        level_s,
        _peak(lost, [segment.lost for segment in told if isinstance(segment, LossSegment)]),
        ended_at,
        begin if is_dead else None,
        *((None, None) if is_dead or not of_value[0] else of_value),
    )


def _peak(level: LostPackets, troubles: Sequence[LostPackets]) -> float | None:
    """The worst loss, if proven above the level."""
    worst = max((lost for lost in troubles if lost.sent), key=lambda lost: lost.interval[0], default=None)
    return worst.ratio if worst is not None and (not level.sent or worst.is_above(level)) else None


def with_levels(
    metric: Metric, packet_bytes: int, figures: tuple[PathFigures, ...], since: datetime, *, is_smallest_size: bool
) -> tuple[PathFigures, ...]:
    """Replace figures of now by their tracks' levels; keep the window's without a level or packets. RTTs are of the
    smallest packets."""
    if metric is Metric.THROUGHPUT:
        return figures
    conditions = [condition_of(metric, packet_bytes, path.present) for path in figures]
    newest = [level_of(track_of(metric, packet_bytes, path.present), since) for path in figures]
    if metric is Metric.LOSS:
        levels = [_loss_level(path, segment) for path, segment in zip(figures, newest, strict=True)]
        proven = _proven(levels, conditions)
        figures = tuple(map(_with_loss, figures, levels, proven))
    if metric is Metric.RTT_MEDIAN and is_smallest_size:
        figures = tuple(map(_with_rtt, figures, newest))
    return tuple(_in_condition(metric, *of_path) for of_path in zip(figures, conditions, strict=True))


def _loss_level(path: PathFigures, now: AnySegment | None) -> LostPackets | None:
    if not path.sent or not isinstance(now, LossSegment):
        return None
    return now.lost if now.lost.sent else FIRST_REPLY


def _proven(levels: Sequence[LostPackets | None], conditions: Sequence[Condition | None]) -> list[float]:
    # Loss in trouble, else the lower 95% bound: 1 of 10 is not 10%.
    ratios = [0.0 if level is None else level.ratio for level in levels]
    rows = [
        (row, level.lost / level.together, level.sent / level.together)
        for row, (level, condition) in enumerate(zip(levels, conditions, strict=True))
        if level is not None and level.lost and not (condition is not None and condition.is_trouble)
    ]
    if rows:
        places, lost, sent = zip(*rows, strict=True)
        for row, bound in zip(places, binomial.lower_bound(lost, sent).tolist(), strict=True):
            ratios[row] = bound
    return ratios


def _with_loss(path: PathFigures, level: LostPackets | None, proven_ratio: float) -> PathFigures:
    if level is None:
        return path
    is_total = level.lost >= level.sent
    return replace(
        path,
        state=FigureState.TOTAL_LOSS if is_total else FigureState.VALUE if level.lost else FigureState.NONE_LOST,
        value=level.ratio,
        value_measured=None if path.value == level.ratio else path.value,
        proven_loss_ratio=proven_ratio if level.lost else None,
    )


def _with_rtt(path: PathFigures, now: AnySegment | None) -> PathFigures:
    if path.value is None or not isinstance(now, DelaySegment):
        return path
    return replace(path, value=now.median_ms, value_measured=path.value)


def _in_condition(metric: Metric, path: PathFigures, condition: Condition | None) -> PathFigures:
    # The path in its condition's state: older packets may fill the window.
    if condition is Condition.NOT_PERMITTED and path.state is not FigureState.NO_DATA:
        return replace(path, state=FigureState.NOT_MEASURED, value=None, value_measured=None, proven_loss_ratio=None)
    if condition is not Condition.DEAD or not path.sent:
        return path
    if metric is not Metric.LOSS:
        return replace(path, state=FigureState.TOTAL_LOSS)
    window = path.loss_ratio
    return replace(
        path,
        state=FigureState.TOTAL_LOSS,
        value=1.0,
        value_measured=None if window == 1.0 else window,
        proven_loss_ratio=1.0,
    )

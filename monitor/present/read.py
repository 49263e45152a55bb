"""Read the present: the stored conditions and tracks of paths, and counts by condition. Nothing is decided here
(`monitor.present.conditions`)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection
from django.db.models import Exists, Max, OuterRef

from monitor.analysis.segments.loss_segments import LossSegment
from monitor.analysis.segments.segment import Moment
from monitor.mesh.models import Path
from monitor.present.conditions import LATELY_S, TROUBLE, Condition
from monitor.present.models import PathTrack
from monitor.present.track import Signal, Track

_COUNTS = """
    SELECT condition, is_old, part, count(*)
    FROM (
        SELECT
            max(condition) AS condition,
            coalesce(max(newest_at), '-infinity') < %(old_before)s AS is_old,
            CASE WHEN path_id = ANY (%(first)s) THEN 1 WHEN path_id = ANY (%(second)s) THEN 2 ELSE 0 END AS part
        FROM path_track
        WHERE path_id IN (SELECT id FROM path WHERE retired_at IS NULL)
        GROUP BY path_id
    ) AS by_path
    GROUP BY condition, is_old, part
"""


@dataclass(frozen=True, slots=True)
class PresentPath:
    """A path with its tracks, first the loss of all its packets."""

    path_id: int
    condition: Condition
    tracks: tuple[Track, ...]

    def track(self, signal: Signal, packet_bytes: int = 0, way: str = "") -> Track | None:
        """The track of a signal; None where the path has none."""
        wanted = signal, packet_bytes, way
        return next((of for of in self.tracks if (of.signal, of.packet_bytes, of.way) == wanted), None)

    @property
    def worst(self) -> Track:
        """The track that determines the condition."""
        return next((track for track in self.tracks if track.condition == self.condition), self.tracks[0])

    @property
    def way(self) -> str:
        """The only lossy way by STAMP, `forward` or `reverse`, else empty."""
        ways = [track for track in self.tracks if track.signal is Signal.LOSS and track.way]
        bad = [track for track in ways if track.condition >= Condition.SUSPECT]
        lower = [track for track in ways if track.condition is Condition.NORMAL]
        return bad[0].way if len(bad) == len(lower) == 1 else ""

    @property
    def onset(self) -> Moment | None:
        """Start of the present trouble; None without."""
        return self.worst.onset if self.condition.is_trouble else None

    @property
    def loss_ratio(self) -> float | None:
        """The loss now, of the size or way in trouble; None before the first packet."""
        is_worst = self.condition.is_trouble and self.worst.signal is Signal.LOSS
        track = self.worst if is_worst else self.track(Signal.LOSS)
        newest = None if track is None else track.now
        return newest.lost.ratio if isinstance(newest, LossSegment) and newest.lost.sent else None


def load(path_ids: Collection[int] | None = None, *, least: Condition = Condition.NORMAL) -> dict[int, PresentPath]:
    """These or all paths with a condition of at least `least`, with their tracks, in order of id: a query."""
    rows = PathTrack.objects.order_by("path_id", "signal", "way", "packet_bytes")
    if path_ids is not None:
        rows = rows.filter(path__in=path_ids)
    if least > Condition.NORMAL:
        rows = rows.filter(path__in=PathTrack.objects.filter(condition__gte=least).values("path_id"))
    tracks: dict[int, list[Track]] = {}
    for row in rows:
        tracks.setdefault(row.path_id, []).append(row.track)
    return {
        path_id: PresentPath(path_id, max(track.condition for track in of_path), tuple(of_path))
        for path_id, of_path in tracks.items()
    }


def suspected_losses() -> set[int]:
    """The paths with a loss in trouble: a query."""
    rows = PathTrack.objects.filter(signal=Signal.LOSS, condition__range=TROUBLE)
    return set(rows.values_list("path_id", flat=True))


def paths_without_condition() -> set[int]:
    """The paths with too few packets, or without newer results that count: a query."""
    worst = PathTrack.objects.values_list("path_id").annotate(worst=Max("condition")).order_by()
    return {path_id for path_id, _ in worst.filter(worst__range=(Condition.AWAITED, Condition.OVERDUE))}


def path_names(source: str | None = None, *, most: int) -> list[tuple[str, str, str, str, int]]:
    """Destination host, source host, source site, destination site and id of tracked paths in use, by id: a query."""
    paths = Path.objects.filter(Exists(PathTrack.objects.filter(path=OuterRef("pk"))), retired_at=None)
    if source is not None:
        paths = paths.filter(source__site__name=source)
    names = ("destination__name", "source__name", "source__site__name", "destination__site__name")
    return list(paths.order_by("pk").values_list(*names, "pk")[:most])


@dataclass(frozen=True, slots=True)
class ConditionCount:
    condition: Condition
    is_old: bool  # newest result older than LATELY_S
    part: int  # 1 or 2 in one of two sets, else 0
    paths: int


def counts(now: datetime, first: Collection[int] = (), second: Collection[int] = ()) -> list[ConditionCount]:
    """Count paths in each condition, separately for two sets: a query."""
    with connection.cursor() as cursor:
        cursor.execute(
            _COUNTS, {"old_before": now - timedelta(seconds=LATELY_S), "first": list(first), "second": list(second)}
        )
        return [ConditionCount(Condition(condition), *row) for condition, *row in cursor.fetchall()]

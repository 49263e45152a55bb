"""Read the present: the condition of each path, its tracks, and how many paths are in each condition.

In: ids of paths, or all that the reader may see. Out: `PresentPath` of stored tracks. What is here was decided by
`monitor.present.track` at the last evaluation of the alert rules; nothing is decided while reading.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from django.db import connection

from monitor.present.models import PathTrack
from monitor.present.track import Condition, Signal, Track

_COUNTS = """
    SELECT condition, count(*)
    FROM (SELECT max(condition) AS condition FROM path_track GROUP BY path_id) AS by_path
    GROUP BY condition
"""


@dataclass(frozen=True, slots=True)
class PresentPath:
    """A path with its tracks, that of the loss of all its packets first."""

    path_id: int
    condition: Condition
    tracks: tuple[Track, ...]

    def track(self, signal: Signal, packet_bytes: int = 0, way: str = "") -> Track | None:
        """The track of a signal; None where the path has none."""
        wanted = signal, packet_bytes, way
        return next((of for of in self.tracks if (of.signal, of.packet_bytes, of.way) == wanted), None)

    @property
    def worst(self) -> Track:
        """The track by which the path is in its condition."""
        return next(track for track in self.tracks if track.condition == self.condition)


def load(path_ids: Collection[int] | None = None, *, least: Condition = Condition.NORMAL) -> dict[int, PresentPath]:
    """These paths, or all, whose condition is `least` or higher, with their tracks; by id, in its order: a query."""
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


def counts() -> Counter[Condition]:
    """The number of paths in each condition: a query."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS)
        return Counter({Condition(condition): number for condition, number in cursor.fetchall()})

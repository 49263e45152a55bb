"""Select the tracks to write now, by their last writes, and write them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import islice

import msgspec
import numpy as np
from django.db import connection
from numpy.typing import NDArray

from monitor.present.conditions import LATELY_S, SHOWN_CYCLES, UNKNOWN, Codes
from monitor.present.models import segments_as_json
from monitor.present.track import Track

_WRITE = """
    INSERT INTO path_track
        (path_id, signal, way, packet_bytes, condition, newest_at, segments, outages, "interval")
    SELECT path_id, signal, way, packet_bytes, condition, to_timestamp(newest_s), segments, outages, "interval"
    FROM unnest(%s::bigint[], %s::smallint[], %s::text[], %s::integer[], %s::smallint[], %s::float8[], %s::jsonb[],
        %s::jsonb[], %s::jsonb[])
        AS track (path_id, signal, way, packet_bytes, condition, newest_s, segments, outages, "interval")
    ON CONFLICT (path_id, signal, way, packet_bytes) DO UPDATE SET
        condition = excluded.condition,
        newest_at = excluded.newest_at,
        segments = excluded.segments,
        outages = excluded.outages,
        "interval" = excluded."interval"
"""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Unchanged calm tracks are written once in this or half of it; after such a pause a process begins anew.
AWAY_S = 300.0
# Each burst changes the level of a track, which is stored once in this time.
LEVEL_S = 60.0
# Paths read, and tracks written, by a statement: at the start of a process, all of them.
MOST_AT_ONCE = 1000


class Written:
    """The last write of each track."""

    def __init__(self, tracks: int) -> None:
        self.conditions = np.full(tracks, -1, dtype=np.int8)
        self.changes = np.full(tracks, -1, dtype=np.int64)
        self.newest_s, self.at_s = np.full(tracks, -np.inf), np.zeros(tracks)
        self._was_calm = np.zeros(tracks, dtype=np.bool_)

    def take(
        self,
        conditions: Codes,
        changes: Ints,
        newest_s: Floats,
        is_calm: Bools,
        is_fresh: Bools,
        spread: Ints,
        now_s: float,
    ) -> Ints:
        """Select and note the tracks to write now: changed ones, those with newer bursts if `is_fresh` or later, calm
        ones spread by `spread`."""
        is_same = (conditions == self.conditions) & (changes == self.changes) & (is_calm == self._was_calm)
        is_same &= (newest_s == self.newest_s) | ~np.isin(conditions, UNKNOWN)  # told as of the newest burst
        is_next = (newest_s > self.newest_s) & (is_fresh | (now_s // LEVEL_S > self.at_s // LEVEL_S))
        is_due = np.where(is_calm, now_s - self.at_s >= AWAY_S * (0.5 + spread % 32 / 64.0), is_next)
        rows = np.flatnonzero(~is_same | is_due)
        self.conditions[rows], self.changes[rows] = conditions[rows], changes[rows]
        self.newest_s[rows], self.at_s[rows], self._was_calm[rows] = newest_s[rows], now_s, is_calm[rows]
        return rows


def is_longer_than_shown(since_s: Floats, every_s: Floats, now_s: float) -> Bools:
    """Whether segments are older than the packets shown as those of now."""
    return np.asarray(now_s - since_s > np.maximum(LATELY_S, SHOWN_CYCLES * every_s))


def write(tracks: Iterable[Track]) -> None:
    """Store tracks by columns; through the model it takes four times as long."""
    rows = (
        (of.path_id, int(of.signal), of.way, of.packet_bytes, int(of.condition),
         of.newest_s if math.isfinite(of.newest_s) else None, _json(segments_as_json(of.segments)), _json(of.outages),
         None if of.interval is None else _json(of.interval))
        for of in tracks
    )  # fmt: skip
    with connection.cursor() as cursor:
        while at_once := list(islice(rows, MOST_AT_ONCE)):
            cursor.execute(_WRITE, [list(column) for column in zip(*at_once, strict=True)])


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()

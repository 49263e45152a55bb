"""Keep the newest answered bursts of each path between evaluations.

Agents deliver oldest first: a path is read since its newest burst, and in full every `WHOLE_EVERY` readings. More
bursts than `PLACES` are kept for one evaluation only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.past.recent_bursts import FIGURES, BurstTable, RecentBursts, figures
from monitor.archive.queries.for_alerts import RoundTrips
from monitor.archive.statements import LONGEST_RAW
from monitor.arrays import Floats, Ints

Column = NDArray[Any]
Read = Callable[[Sequence[int], Sequence[int], Sequence[float], datetime], RoundTrips]

# Bursts of a path: a window with its spare cycles, and some that are delivered together.
PLACES = 48
# Read again this long before the newest burst: bursts end, and are delivered, in another order than they began.
ORDER_S = 60
# After this many readings a path is read as a whole.
WHOLE_EVERY = 20
# Paths are read together if all readings are shorter, or the longest is at most twice the shortest.
SHORTEST_S = 150
GROWTH = 1.1
# Memory for bursts beyond the rows is freed where it is more than a quarter of theirs.
MOST_BEYOND = 1.25
# Path-seconds per statement: the forty cycles of a minute of 10,000 paths, 50 MB.
MOST_PATH_S = 24_000_000


class KeptBursts:
    """Bursts of the paths requested in the last day, up to the last request, by `for_alerts.recent_round_trips`."""

    def __init__(self, read: Read) -> None:
        self._read, self._has_rtts = read, False
        self._forget()

    def recent(
        self,
        path_ids: Sequence[int],
        packet_bytes: Sequence[int],
        since_s: Sequence[float],
        until: datetime,
        *,
        with_rtts: bool,
    ) -> BurstTable:
        """As `for_alerts.recent_round_trips`, with the figures of each burst."""
        until_s = until.timestamp()
        if until_s < self._until_s or (with_rtts and not self._has_rtts):
            self._has_rtts |= with_rtts
            self._forget()
        if until_s > self._until_s:
            self._begin(until_s)
        order = np.argsort(np.asarray(path_ids, dtype=np.int64))
        ids, sizes = (np.asarray(column, dtype=np.int64)[order] for column in (path_ids, packet_bytes))
        first_s = np.maximum(np.asarray(since_s, dtype=np.float64)[order], until_s - LONGEST_RAW.total_seconds())
        rows = self._rows_of(ids, sizes)
        begins_s = self._begins_s(rows, first_s)
        is_due = np.isfinite(begins_s)
        self._read_since(rows[is_due], first_s[is_due], begins_s[is_due], until)
        first, end = self._begin_of[rows], self._begin_of[rows] + self._count[rows]
        first[~is_due] += self._older(rows[~is_due], first_s[~is_due])
        has_bursts = end > first
        return BurstTable(ids[has_bursts], first[has_bursts], end[has_bursts], self._bursts)

    def _forget(self) -> None:
        self._until_s = -np.inf
        self._ids = self._order = self._sizes = self._begin_of = self._count = self._readings = np.zeros(
            0, dtype=np.int64
        )
        self._since_s = self._read_s = np.zeros(0)
        self._keep({name: np.zeros(0) for name in ("at_s", *FIGURES)} | _digits(np.zeros(0), np.zeros((0, 0))))

    def _keep(self, columns: dict[str, Column]) -> None:
        """Replace the arrays and drop bursts beyond the rows; arrays returned before stay unchanged."""
        self._columns, self._taken = columns, len(self._ids) * PLACES
        values_ms = {name: columns[name] for name in FIGURES}
        self._bursts = RecentBursts(columns["at_s"], columns["ttl"], values_ms, columns["rtts_ms"])

    def _begin(self, until_s: float) -> None:
        self._until_s, self._taken = until_s, len(self._ids) * PLACES
        if len(self._bursts.at_s) > MOST_BEYOND * self._taken:
            self._keep({name: column[: self._taken].copy() for name, column in self._columns.items()})

    def _rows_of(self, ids: Ints, sizes: Ints) -> Ints:
        new = ~np.isin(ids, self._ids)
        if new.any():
            self._add(ids[new], sizes[new])
        rows = self._order[np.searchsorted(self._ids, ids, sorter=self._order)]
        self._since_s[rows[self._sizes[rows] != sizes]] = np.inf
        self._sizes[rows] = sizes
        return rows

    def _add(self, ids: Ints, sizes: Ints) -> None:
        kept, none = np.flatnonzero(self._read_s >= self._until_s - LONGEST_RAW.total_seconds()), np.zeros_like(ids)
        columns = {name: self._table(column)[kept] for name, column in self._columns.items()}
        self._ids, self._sizes = np.append(self._ids[kept], ids), np.append(self._sizes[kept], sizes)
        self._order = np.argsort(self._ids)
        self._count = np.append(self._count[kept], none)
        self._since_s = np.append(self._since_s[kept], np.full(len(ids), np.inf))
        self._read_s = np.append(self._read_s[kept], np.full(len(ids), -np.inf))
        # Those that are read for the first time together are not read as a whole together again.
        self._readings = np.append(self._readings[kept], np.arange(len(ids)) % WHOLE_EVERY)
        self._begin_of = np.arange(len(self._ids)) * PLACES
        self._keep({name: _longer(_flat(table), len(self._ids) * PLACES) for name, table in columns.items()})

    def _table(self, column: Column) -> Column:
        """Bursts in rows, of shape (paths, PLACES, …)."""
        return column[: len(self._ids) * PLACES].reshape(len(self._ids), PLACES, *column.shape[1:])

    def _older(self, rows: Ints, since_s: Floats) -> Ints:
        at_s = self._table(self._columns["at_s"])[rows]
        is_there = np.arange(PLACES) < self._count[rows][:, np.newaxis]
        # Stored times are in microseconds.
        return np.asarray((is_there & (at_s < (np.rint(since_s * 1e6) - 0.5)[:, np.newaxis] / 1e6)).sum(axis=1))

    def _begins_s(self, rows: Ints, first_s: Floats) -> Floats:
        """Time from which to read each row; infinite where no burst is missing."""
        is_there = self._since_s[rows] <= first_s
        is_part = is_there & (self._count[rows] > 0) & (self._readings[rows] < WHOLE_EVERY)
        begins_s = first_s.copy()
        newest = self._begin_of[rows[is_part]] + self._count[rows[is_part]] - 1
        begins_s[is_part] = np.maximum(self._columns["at_s"][newest] - ORDER_S, first_s[is_part])
        begins_s[is_there & (self._read_s[rows] == self._until_s)] = np.inf
        return begins_s

    def _read_since(self, rows: Ints, first_s: Floats, begins_s: Floats, until: datetime) -> None:
        """Read bursts of these rows, in path order, from `begins_s`; keep them since `first_s`."""
        lack = [
            places[self._read_part(rows[places], first_s[places], begins_s[places], until)]
            for places in _parts(self._until_s - begins_s)
        ]
        again = np.concatenate([np.zeros(0, dtype=np.int64), *lack])
        if len(again):
            self._read_since(rows[again], first_s[again], first_s[again], until)

    def _read_part(self, rows: Ints, first_s: Floats, begins_s: Floats, until: datetime) -> Ints:
        """As `_read_since`, by one statement; returns places without room, to be read as a whole."""
        trips = self._read(self._ids[rows].tolist(), self._sizes[rows].tolist(), begins_s.tolist(), until)
        row = np.searchsorted(self._ids[rows], trips.path_id.astype(np.int64))
        new = np.bincount(row, minlength=len(rows))
        is_whole = begins_s <= first_s
        self._count[rows[is_whole]] = 0
        older = self._older(rows, first_s)
        kept = self._older(rows, begins_s) - older
        count = kept + new
        has_room, is_beyond = count <= PLACES, (count > PLACES) & is_whole
        self._begin_of[rows] = rows * PLACES
        self._begin_of[rows[is_beyond]] = self._take(new[is_beyond])
        self._count[rows] = np.where(has_room | is_beyond, count, 0)
        self._since_s[rows] = np.where(has_room, first_s, np.inf)
        self._read_s[rows] = self._until_s
        self._readings[rows] = np.where(is_whole & (self._readings[rows] >= WHOLE_EVERY), 0, self._readings[rows] + 1)
        moved = np.flatnonzero(has_room & (older > 0) & (kept > 0))
        self._move(rows[moved], older[moved])
        into = (self._begin_of[rows] + kept - np.cumsum(new) + new)[row] + np.arange(len(row))
        is_stored = (has_room | is_beyond)[row]
        self._store(into[is_stored], trips, is_stored)
        return np.flatnonzero(~has_room & ~is_beyond)

    def _take(self, counts: Ints) -> Ints:
        first = self._taken + np.cumsum(counts) - counts
        end = self._taken + int(counts.sum())
        length = len(self._bursts.at_s)
        if end > length:
            longer = max(end, int(GROWTH * length))
            self._keep({name: _longer(column, longer) for name, column in self._columns.items()})
        self._taken = end
        return first

    def _move(self, rows: Ints, older: Ints) -> None:
        places = np.minimum(older[:, np.newaxis] + np.arange(PLACES), PLACES - 1)
        for column in self._columns.values():
            table = self._table(column)
            table[rows] = table[rows[:, np.newaxis], places]

    def _store(self, into: Ints, trips: RoundTrips, is_stored: NDArray[np.bool_]) -> None:
        rtts_ms = trips.rtts_ms[is_stored]
        packets = rtts_ms.shape[1] if self._has_rtts else 0
        if packets > self._bursts.rtts_ms.shape[1]:
            wide = np.full((len(self._bursts.at_s), packets), np.nan, dtype=np.float32)
            wide[:, : self._bursts.rtts_ms.shape[1]] = self._bursts.rtts_ms
            taken = self._taken
            self._keep(self._columns | {"rtts_ms": wide})
            self._taken = taken
        values: dict[str, Column] = {"at_s": trips.at_s[is_stored], **figures(rtts_ms)}
        values |= _digits(trips.ttl[is_stored], rtts_ms[:, :packets])
        for name, column in values.items():
            if column.ndim > 1:
                self._columns[name][into] = np.nan
                self._columns[name][into, :packets] = column
            else:
                self._columns[name][into] = column


def _parts(lengths_s: Floats) -> Iterator[Ints]:
    doubled = np.ceil(np.log2(np.maximum(lengths_s, SHORTEST_S) / SHORTEST_S))
    for times in np.unique(doubled).tolist():
        places = np.flatnonzero(doubled == times)
        most = max(int(MOST_PATH_S / (SHORTEST_S * 2**times)), 1)
        yield from (places[first : first + most] for first in range(0, len(places), most))


def _digits(ttl: Floats, rtts_ms: Floats) -> dict[str, Column]:
    return {"ttl": ttl.astype(np.float32), "rtts_ms": rtts_ms.astype(np.float32)}


def _flat(table: Column) -> Column:
    return table.reshape(table.shape[0] * PLACES, *table.shape[2:])


def _longer(column: Column, length: int) -> Column:
    longer = np.zeros((length, *column.shape[1:]), dtype=column.dtype)
    longer[: len(column)] = column
    return longer

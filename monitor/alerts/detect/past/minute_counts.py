"""Keep the counts of the last hour by minute between evaluations, as `for_alerts.recent_counts`.

Agents deliver oldest first: each reading repeats the newest minutes, late paths since their newest burst, and older
minutes in rotation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from monitor.archive.queries import for_alerts
from monitor.archive.queries.for_alerts import COUNTS, MINUTE_S, TIMES, Columns
from monitor.arrays import Floats, Ints

Counts = NDArray[np.uint16] | NDArray[np.uint32]

# Minutes that are kept, with the running minute.
MINUTES = 60
# Minutes read by one statement: an hour of all paths takes too much memory.
BLOCK = 5
# The same limit, in path-minutes.
MOST_LATE = 500_000
# The newest bursts of all paths are read again for a cycle and the time until its delivery is stored.
NEWEST_S = 150
# Read again this long before the newest burst: bursts end, and are delivered, in another order than they began.
ORDER_S = 60
MOST_SMALL = np.iinfo(np.uint16).max
LONG_AGO = datetime.min.replace(tzinfo=UTC)


class MinuteCounts:
    """Counts of all paths in the minutes before the last `read`; `path_ids` returns all paths that may have bursts."""

    def __init__(self, path_ids: Callable[[], list[int]]) -> None:
        self._path_ids = path_ids
        self._until = self._checked_at = self._listed_at = LONG_AGO
        self._end = self._checked = 0
        self._ids = np.zeros(0, dtype=np.int64)
        self._counts: dict[str, Counts] = {name: np.zeros((0, MINUTES), dtype=np.uint16) for name in COUNTS}
        self._newest_s = {name: np.zeros(0) for name in TIMES}

    def read(self, until: datetime) -> None:
        """Read all changes up to this moment."""
        if until == self._until:
            return
        end = _minute_after(until)
        first = end - MINUTES
        self._list_paths(until)
        if until < self._until or end - self._end >= MINUTES:
            self._read_hour(first, end, until)
        else:
            self._clear(self._end, end)
            newest = max(int(self._until.timestamp() - NEWEST_S) // MINUTE_S, first)
            self._read_late(first, newest)
            self._read_minutes(newest, end, until)
            self._check(first, newest, until)
        self._until, self._end = until, end

    def steps(self, until: datetime, step_s: float, steps: int) -> Columns:
        """`path_id`, `step`, `COUNTS` and `TIMES` of the last steps, whole minutes and an hour at most."""
        self.read(until)
        minutes = round(step_s) // MINUTE_S
        slots = np.arange(self._end - 1, self._end - 1 - minutes * steps, -1) % MINUTES
        places = {name: self._steps_ago(newest_s, minutes) for name, newest_s in self._newest_s.items()}
        listed = np.flatnonzero(places["tried_s"] < steps)
        columns: Columns = {
            "path_id": np.repeat(self._ids[listed], steps).astype(np.float64),
            "step": np.tile(np.arange(steps, dtype=np.float64), len(listed)),
        }
        for name, counts in self._counts.items():
            by_step = counts[np.ix_(listed, slots)].reshape(len(listed), steps, minutes).sum(axis=2, dtype=np.uint32)
            columns[name] = by_step.reshape(-1).astype(np.float64)
        for name, newest_s in self._newest_s.items():
            step = places[name][listed]
            rows = np.flatnonzero(step < steps)
            columns[name] = np.full(len(listed) * steps, np.nan)
            columns[name][rows * steps + step[rows].astype(np.int64)] = newest_s[listed[rows]]
        return columns

    def since(self, since: datetime, until: datetime) -> Columns:
        """As `steps`, a single step from `since`, a whole minute within the last hour."""
        self.read(until)
        minutes = self._end - int(since.timestamp()) // MINUTE_S
        return self.steps(until, minutes * MINUTE_S, 1)

    def _steps_ago(self, at_s: Floats, minutes: int) -> Floats:
        """Steps back from the newest, each of `minutes` minutes."""
        return np.asarray(np.floor((self._end - 1 - np.floor(at_s / MINUTE_S)) / minutes))

    def _list_paths(self, until: datetime) -> None:
        if not timedelta() <= until - self._listed_at < timedelta(seconds=MINUTE_S):
            self._add(np.array(self._path_ids(), dtype=np.int64))
            self._listed_at = until

    def _read_hour(self, first: int, end: int, until: datetime) -> None:
        for newest_s in self._newest_s.values():
            newest_s[:] = -np.inf
        self._read_minutes(first, end, until)
        self._checked, self._checked_at = 0, until

    def _check(self, first: int, newest: int, until: datetime) -> None:
        if until - self._checked_at < timedelta(seconds=MINUTE_S):
            return
        begin = newest - newest % BLOCK - BLOCK * self._checked
        self._read_minutes(max(begin, first), min(begin + BLOCK, newest), until)
        self._checked, self._checked_at = (self._checked + 1) % (MINUTES // BLOCK), until

    def _add(self, path_ids: Ints) -> None:
        new = np.setdiff1d(path_ids, self._ids)
        if not len(new):
            return
        ids = np.concatenate([self._ids, new])
        order = np.argsort(ids)
        self._ids = ids[order]
        for name, counts in self._counts.items():
            self._counts[name] = np.concatenate([counts, np.zeros((len(new), MINUTES), dtype=counts.dtype)])[order]
        for name, newest_s in self._newest_s.items():
            self._newest_s[name] = np.concatenate([newest_s, np.full(len(new), -np.inf)])[order]

    def _read_late(self, first: int, newest: int) -> None:
        """Read [first, newest) again for paths with older bursts, each since its newest."""
        begins = np.maximum(np.floor((self._newest_s["tried_s"] - ORDER_S) / MINUTE_S), first)
        late = np.flatnonzero(begins < newest)
        for places in _by_age(newest - begins[late]):
            rows = late[places]
            path_ids = self._ids[rows].tolist()
            block = max(BLOCK, MOST_LATE // len(rows))
            for begin in range(int(begins[rows].min()), newest, block):
                end = min(begin + block, newest)
                slots = np.arange(begin, end) % MINUTES
                for counts in self._counts.values():
                    counts[rows[:, np.newaxis], slots] = 0
                self._store(for_alerts.minute_counts(_at(begin), _at(end), path_ids))

    def _read_minutes(self, first: int, end: int, until: datetime) -> None:
        for begin in range(first, end, BLOCK):
            block_end = min(begin + BLOCK, end)
            self._clear(begin, block_end)
            self._store(for_alerts.minute_counts(_at(begin), min(_at(block_end), until)))

    def _clear(self, begin: int, end: int) -> None:
        for counts in self._counts.values():
            counts[:, np.arange(begin, end) % MINUTES] = 0

    def _store(self, columns: Columns) -> None:
        path_id = columns["path_id"].astype(np.int64)
        self._add(np.unique(path_id))
        row = np.searchsorted(self._ids, path_id)
        slot = columns["minute"].astype(np.int64) % MINUTES
        for name in COUNTS:
            values = np.nan_to_num(columns[name])
            if values.max(initial=0.0) > MOST_SMALL:
                self._counts[name] = self._counts[name].astype(np.uint32)
            self._counts[name][row, slot] = values
        for name in TIMES:
            np.fmax.at(self._newest_s[name], row, columns[name])


def _by_age(minutes: Floats) -> Iterator[Ints]:
    """Group paths by the time to read, which differs at most twofold in a group."""
    doubled = np.ceil(np.log2(np.maximum(minutes, BLOCK)))
    for number in np.unique(doubled).tolist():
        yield np.flatnonzero(doubled == number)


def _minute_after(at: datetime) -> int:
    return -int(-at.timestamp() // MINUTE_S)


def rest_of_minute_s(at: datetime) -> float:
    """Seconds left in the running minute, which the newest step does not have yet."""
    return (_at(_minute_after(at)) - at).total_seconds()


def _at(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * MINUTE_S, UTC)

"""Changes that a full disk kept from the spool, kept in memory."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable

from probes.site.spool import ledger, losses
from probes.site.spool.ledger import Cycle
from probes.site.wire import GapReason


class Unsaved:
    """Lost results, cycles without any, and the agent's start, until written."""

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()
        self._cycles: set[Cycle] = set()
        self._start: tuple[float, float | None] | None = None

    @property
    def count(self) -> int:
        return self._kinds.total()

    def add(self, kinds: Iterable[str], cycle: Cycle | None) -> None:
        self._kinds.update(kinds)
        if cycle is not None:
            self._cycles.add(cycle)

    def add_start(self, now_s: float, last_heartbeat_s: float | None) -> None:
        self._start = now_s, last_heartbeat_s

    def move(self, by_s: float) -> None:
        self._cycles = {cycle.moved(by_s) for cycle in self._cycles}
        if self._start is not None:
            self._start = self._start[0] + by_s, self._start[1]

    def write(self, connection: sqlite3.Connection, *, sent_up_to: int) -> None:
        """Write all; call `clear` once committed. `sent_up_to` as for `ledger.add_gap`."""
        if self._start is not None:
            now_s, last_heartbeat_s = self._start
            ledger.record_start(connection, now_s, last_heartbeat_s)
        for kind, count in self._kinds.items():
            losses.add_dropped(connection, kind, losses.DISK_FULL, count)
        for cycle in self._cycles:
            ledger.end(connection, cycle)
            ledger.add_gap(connection, GapReason.DISK_FULL, cycle, cycle, sent_up_to=sent_up_to)

    def clear(self) -> None:
        self._start = None
        self._kinds.clear()
        self._cycles.clear()

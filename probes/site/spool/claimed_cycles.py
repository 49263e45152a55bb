"""Cycles claimed by this run of the agent, in memory, with their renumbering when their clock is set."""

from __future__ import annotations

import logging
import math
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from probes.site.spool import ledger
from probes.site.spool.database import NoRoom, SpoolDatabase
from probes.site.spool.ledger import Cycle
from probes.site.spool.unsaved import Unsaved

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class BegunCycle:
    """A running cycle, by its present number."""

    cycle: Cycle
    off_s: float | None  # the clock's error at its begin


class ClaimedCycles:
    """Use within the spool's transactions; `ahead_s` is the cycles' clock less the steady clock."""

    def __init__(self, ahead_s: Callable[[], float], began_s: float) -> None:
        self.began_s = began_s
        # Cycles due since the agent began that never began.
        self.lost = 0
        self._read_ahead_s = ahead_s
        self._ahead_s = ahead_s()
        self._running: dict[Cycle, BegunCycle] = {}
        self._numbered: set[tuple[str, int]] = set()

    def follow_clock(self, database: SpoolDatabase, unsaved: Unsaved) -> None:
        """Renumber cycles when their clock was set: elapsed time decides which were missed."""
        ahead_s = self._read_ahead_s()
        if ahead_s == self._ahead_s:
            return
        try:
            with database.transaction(lambda: self._set_clock(ahead_s, unsaved)) as connection:
                ledger.move(connection, self._numbered, ahead_s - self._ahead_s)
        except NoRoom as error:
            logger.error("%s", error)

    def _set_clock(self, ahead_s: float, unsaved: Unsaved) -> None:
        by_s = ahead_s - self._ahead_s
        self._ahead_s = ahead_s
        self.began_s += by_s
        unsaved.move(by_s)
        for begun in self._running.values():
            begun.cycle = begun.cycle.moved(by_s)

    def set_planned(self, connection: sqlite3.Connection, newest: Iterable[Cycle], now_s: float) -> None:
        self._numbered |= ledger.set_planned(connection, newest, now_s)

    def claim(self, connection: sqlite3.Connection, cycle: Cycle) -> range | None:
        return ledger.claim(connection, cycle, is_first=(cycle.test, cycle.every_s) not in self._numbered)

    def begin(self, cycle: Cycle, off_s: float | None, lost: range) -> None:
        """Note a running cycle; numbers `lost` before it never began."""
        self._numbered.add((cycle.test, cycle.every_s))
        self.lost += len(range(max(lost.start, math.ceil(self.began_s / cycle.every_s)), lost.stop))
        self._running[cycle] = BegunCycle(cycle, off_s)

    def find(self, cycle: Cycle) -> BegunCycle:
        return self._running.get(cycle, BegunCycle(cycle, None))

    def forget(self, cycle: Cycle) -> None:
        self._running.pop(cycle, None)

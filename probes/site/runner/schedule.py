"""A Celery beat scheduler for the plan on disk and the agent's chores.

Tests are aligned to multiples of their interval since the epoch plus the site's phase; clock steps change none
(`CycleClock`).
"""

from __future__ import annotations

import logging
import math
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

from celery.beat import ScheduleEntry, Scheduler
from celery.schedules import BaseSchedule, schedstate

from probes.contract import CycleKind
from probes.kinds import CYCLE_KINDS
from probes.site.spool.ledger import Cycle
from probes.site.wire import Plan

logger = logging.getLogger(__name__)

DELIVER, DISPATCH, PULSE = "site.deliver", "site.dispatch_slots", "site.pulse"
# Beat looks for a new plan whenever one of these is due, and at no other time.
CHORES = {"site.pull_plan": 10.0, DELIVER: 5.0, DISPATCH: 5.0, PULSE: 5.0}
LONGEST_PHASE_S = 2.0
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Aligned(BaseSchedule):
    """Due once in each interval [k * every_s + phase_s, (k + 1) * every_s + phase_s) since the epoch; a clock step
    costs an interval."""

    def __init__(self, every_s: float, phase_s: float = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self.every_s = every_s
        self.phase_s = phase_s

    def number(self, at: datetime) -> int:
        """The number k of the interval that contains `at`."""
        return math.floor((at.timestamp() - self.phase_s) / self.every_s)

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        return timedelta(seconds=self._until_next_s(self.now()))

    def is_due(self, last_run_at: datetime) -> tuple[bool, float]:
        """Whether it has not run in this interval, and seconds until due, for the same moment."""
        # Read once: a boundary between two readings would skip an interval.
        now = self.now()
        state: tuple[bool, float] = schedstate(self.number(now) != self.number(last_run_at), self._until_next_s(now))
        return state

    def _until_next_s(self, now: datetime) -> float:
        return (self.number(now) + 1) * self.every_s + self.phase_s - now.timestamp()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Aligned):
            return NotImplemented
        return (self.every_s, self.phase_s) == (other.every_s, other.phase_s)

    def __hash__(self) -> int:
        return hash((self.every_s, self.phase_s))

    def __repr__(self) -> str:
        return f"<every {self.every_s:g} s + {self.phase_s:.3f} s>"


class PlanScheduler(Scheduler):
    """Beat's scheduler over chores and plan of `app.agent`, reread when the plan's file was replaced."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._plan: Plan | None = None
        self._entries: dict[str, ScheduleEntry] = {}
        self._ahead_s: float | None = None
        super().__init__(*arguments, **options)

    def setup_schedule(self) -> None:
        self._follow(self.app.agent.plans.current())

    @property
    def schedule(self) -> dict[str, ScheduleEntry]:
        plan = self.app.agent.plans.current()
        if plan is not self._plan:
            self._follow(plan)
        return self._entries

    def tick(self, *arguments: Any, **options: Any) -> float:
        """As Celery's, but recomputes due times after clock changes."""
        ahead_s = self.app.agent.cycle_clock.ahead_s()
        if self._ahead_s is not None and ahead_s != self._ahead_s:
            logger.warning("the clock by which cycles are due was set by %.1f s", ahead_s - self._ahead_s)
            self._heap = None
        self._ahead_s = ahead_s
        wait_s: float = super().tick(*arguments, **options)
        return wait_s

    def adjust(self, n: float, drift: float = 0.0) -> float:
        """Wake when an entry is due; Celery would wake 10 ms before and poll."""
        return n + drift

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        """Send a task, unless there is nothing to deliver."""
        if entry.name != DELIVER or self.app.agent.spool.has_results:
            super().apply_entry(entry, producer=producer)

    def _follow(self, plan: Plan | None) -> None:
        self._plan = plan
        previous = self._entries
        wanted = {}
        for name, every_s, phase_s in chores(plan):
            last_run_at = previous[name].last_run_at if name in previous else EPOCH
            wanted[name] = self._entry(name, name, every_s, phase_s, last_run_at=last_run_at)
        for kind in CYCLE_KINDS:
            for name, test, every_s, phase_s in cycle_entries(plan, kind):
                wanted[name] = self._entry(name, task_name(kind), every_s, phase_s, args=(test,))
        kept = {name: previous[name] for name, entry in wanted.items() if name in previous and previous[name] == entry}
        self._entries = {**wanted, **kept}

    def _entry(
        self,
        name: str,
        task: str,
        every_s: float,
        phase_s: float,
        *,
        args: tuple[str, ...] = (),
        last_run_at: datetime | None = None,
    ) -> ScheduleEntry:
        """Beat's entry of a task; its message expires before the next is due."""
        return self.Entry(
            name=name,
            task=task,
            schedule=Aligned(every_s, phase_s, nowfun=self.app.agent.cycle_clock.now, app=self.app),
            args=args,
            last_run_at=last_run_at,
            options={"expires": 0.9 * every_s},
            app=self.app,
        )


def chores(plan: Plan | None) -> list[tuple[str, float, float]]:
    """Name, interval and phase of the agent's tasks; slots only if planned."""
    wanted = CHORES if plan is not None and plan.slots else CHORES.keys() - {DISPATCH}
    return [(name, CHORES[name], CHORES[name] * spread(plan)) for name in sorted(wanted)]


def task_name(kind: CycleKind) -> str:
    return f"site.{kind.field}_cycle"


def cycle_entries(plan: Plan | None, kind: CycleKind) -> list[tuple[str, str, int, float]]:
    if plan is None:
        return []
    return [
        (f"{kind.name} {task.test}", task.test, task.every_s, phase_s(plan, kind, task.every_s))
        for task in plan.of(kind)
    ]


def phase_s(plan: Plan, kind: CycleKind, every_s: int) -> float:
    """Any phase for a kind that measures in turn; else below 2 s and a tenth of the interval."""
    return spread(plan) * (every_s if kind.one_at_a_time else min(LONGEST_PHASE_S, 0.1 * every_s))


def newest_cycles(plan: Plan, now: datetime) -> list[Cycle]:
    return [Cycle.at(task.test, task.every_s, now, phase_s(plan, kind, task.every_s)) for kind, task in plan.cycles]


def spread(plan: Plan | None) -> float:
    return 0.0 if plan is None else zlib.crc32(plan.site.encode()) / 2**32

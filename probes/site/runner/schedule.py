"""The schedule of the agent: a Celery beat scheduler whose entries follow the plan on disk.

Each repeated test of the plan is an entry, aligned to multiples of its interval since the epoch plus a phase of the
site, so that sites do not all send in the same instant and a restart does not shift the series. The phase of a kind
that measures one path at a time is anywhere in its interval: trains of two sites that met would spoil both. A step
of this host's clock changes none (`probes.site.delivery.centre_clock.CycleClock`). The agent's own chores are entries
too, and due at once when the agent starts. Slots are not here: a chore sends those of the next
minute (`probes.site.tasks`).
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
CHORES = {"site.pull_plan": 10.0, DELIVER: 5.0, DISPATCH: 5.0, PULSE: 5.0}
"""Beat also looks for a new plan each time that one of these is due, and in no other moments."""
LONGEST_PHASE_S = 2.0
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Aligned(BaseSchedule):
    """Due once in each interval [k * every_s + phase_s, (k + 1) * every_s + phase_s) since the epoch.

    It remembers the number of the interval in which it ran last, so a step of its clock costs a single interval.
    """

    def __init__(self, every_s: float, phase_s: float = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self.every_s = every_s
        self.phase_s = phase_s

    def number(self, at: datetime) -> int:
        """The number k of the interval that contains `at`."""
        return math.floor((at.timestamp() - self.phase_s) / self.every_s)

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        """Time until the interval after the present one begins."""
        return timedelta(seconds=self._until_next_s(self.now()))

    def is_due(self, last_run_at: datetime) -> tuple[bool, float]:
        """Whether it has not run in this interval, and the seconds until it is due again.

        Both refer to the same moment: a boundary between two readings of the clock would skip the whole interval.
        """
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
    """Beat's scheduler over the chores and the plan of `app.agent`, read anew when the plan's file was replaced."""

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
        """As Celery's, but when the clock of the cycles was set, all due times are computed again."""
        ahead_s = self.app.agent.cycle_clock.ahead_s()
        if self._ahead_s is not None and ahead_s != self._ahead_s:
            logger.warning("the clock by which cycles are due was set by %.1f s", ahead_s - self._ahead_s)
            self._heap = None
        self._ahead_s = ahead_s
        wait_s: float = super().tick(*arguments, **options)
        return wait_s

    def adjust(self, n: float, drift: float = 0.0) -> float:
        """Wake when an entry is due. Celery wakes 10 ms before, and then asks without a pause until it is."""
        return n + drift

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        """Send a task; a message costs many times what the agent needs to see that it has nothing to deliver."""
        if entry.name != DELIVER or self.app.agent.spool.has_results:
            super().apply_entry(entry, producer=producer)

    def _follow(self, plan: Plan | None) -> None:
        """Entries for `plan`; those that stay the same keep when they last ran."""
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
        """Due when the interval of `last_run_at`, by default the present one, is over.

        A message that was not taken up before the next one is due is not worth running.
        """
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
    """Name, interval and phase of the agent's own tasks; the sites of a mesh are spread over the interval. Slots are
    looked for where the plan has any."""
    wanted = CHORES if plan is not None and plan.slots else CHORES.keys() - {DISPATCH}
    return [(name, CHORES[name], CHORES[name] * spread(plan)) for name in sorted(wanted)]


def task_name(kind: CycleKind) -> str:
    """The name of the Celery task that runs a cycle of a kind."""
    return f"site.{kind.field}_cycle"


def cycle_entries(plan: Plan | None, kind: CycleKind) -> list[tuple[str, str, int, float]]:
    """Name, test, interval and phase of each test of a kind."""
    if plan is None:
        return []
    return [
        (f"{kind.name} {task.test}", task.test, task.every_s, phase_s(plan, kind, task.every_s))
        for task in plan.of(kind)
    ]


def phase_s(plan: Plan, kind: CycleKind, every_s: int) -> float:
    """Anywhere in the interval for a kind that measures one path at a time, else below 2 s and a tenth of it."""
    return spread(plan) * (every_s if kind.one_at_a_time else min(LONGEST_PHASE_S, 0.1 * every_s))


def newest_cycles(plan: Plan, now: datetime) -> list[Cycle]:
    """Of each test that the plan repeats the newest cycle that has begun."""
    return [Cycle.at(task.test, task.every_s, now, phase_s(plan, kind, task.every_s)) for kind, task in plan.cycles]


def spread(plan: Plan | None) -> float:
    """A number from 0 to 1 that belongs to the site."""
    return 0.0 if plan is None else zlib.crc32(plan.site.encode()) / 2**32

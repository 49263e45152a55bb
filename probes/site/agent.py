"""The agent's parts, put together: spool, plan, limits, ping and capacity cycles, throughput slots, delivery.

Made once in the worker process from `AgentSettings`. What it does at which time is said by `probes.site.schedule`, and
done in the tasks of `probes.site.tasks`.
"""

from __future__ import annotations

import logging
from pathlib import Path

from probes.registry import PROBES
from probes.site.capacity import CapacityCycles
from probes.site.centre import Centre
from probes.site.cycles import Cycles
from probes.site.deliver import Delivery
from probes.site.journal import Journal, write_state
from probes.site.limits import read_limits
from probes.site.own_tests import OwnTests
from probes.site.plan import PlanCache, PlanPuller
from probes.site.settings import AgentSettings
from probes.site.slots import Slots
from probes.site.spool import Spool
from probes.site.vitals import Vitals
from probes.throughput.iperf3 import serve

logger = logging.getLogger(__name__)


class Agent:
    """One site's agent; its parts may be used from any thread."""

    def __init__(self, settings: AgentSettings) -> None:
        centre = Centre(settings.centre, Path(settings.token_file), allow_plain_http=settings.allow_plain_http)
        limits = read_limits(None if settings.limits_file is None else Path(settings.limits_file))
        own_tests = OwnTests()
        self.settings = settings
        self.journal = Journal(settings.centre)
        self.vitals = Vitals(centre.clock, self.journal)
        self.spool = Spool(settings.spool_file, clock_off_s=centre.clock.off_s)
        self.plans = PlanCache(settings.plan_file)
        self.puller = PlanPuller(self.plans, centre)
        self.delivery = Delivery(self.spool, centre, health=self.vitals.of)
        self.cycles = Cycles(self.spool, limits, own_tests, PROBES["ping"])
        self.capacity = CapacityCycles(self.spool, limits, own_tests, PROBES["capacity"])
        self.slots = Slots(self.spool, limits, own_tests, PROBES["throughput"], serve)

    def ping_cycle(self, test: str) -> None:
        """One cycle of a ping test, if the plan still has it."""
        plan = self.plans.current()
        task = next((task for task in plan.ping if task.test == test), None) if plan is not None else None
        if task is not None:
            self.journal.tick(test, task.every_s)
            with self.journal.running(f"ping {test}"):
                self.cycles.run(task)

    def capacity_cycle(self, test: str) -> None:
        """One cycle of a capacity test, if the plan still has it."""
        plan = self.plans.current()
        task = next((task for task in plan.capacity if task.test == test), None) if plan is not None else None
        if task is not None:
            with self.journal.running(f"capacity {test}"):
                self.capacity.run(task)

    def pulse(self) -> None:
        """Show the supervisor that tasks are scheduled, sent and run, and everybody how the agent is."""
        self.settings.pulse_file.touch()
        plan = self.plans.current()
        self.journal.keep_ticks({(task.test, task.every_s) for task in plan.ping} if plan is not None else set())
        state = self.journal.state(self.vitals.now(), self.delivery.last_accepted_at)
        try:
            write_state(self.settings.state_file, state)
        except OSError as error:
            logger.warning("state: %s cannot be written: %s", self.settings.state_file, error)

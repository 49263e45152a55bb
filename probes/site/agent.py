"""The agent's parts put together, created once in the worker process from `AgentSettings`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

from probes.contract import CycleKind
from probes.kinds import KINDS
from probes.quantities import counted
from probes.request_response.service import AnsweringService
from probes.request_response.spec import AnsweringPlan
from probes.site.delivery.centre import Centre
from probes.site.delivery.centre_clock import CycleClock
from probes.site.delivery.deliver import DeliveryLoop
from probes.site.delivery.health_report import HealthReporter
from probes.site.journal import Journal, write_state
from probes.site.limits.limits import Limits
from probes.site.limits.usage import Usage
from probes.site.limits.watched import WatchedLimits
from probes.site.plan import PlanCache, PlanPuller
from probes.site.runner.cycle import Cycles
from probes.site.runner.destination_tests import DestinationTests
from probes.site.runner.offered_tests import OfferedTests
from probes.site.runner.on_demand_pings import OnDemandPings
from probes.site.runner.on_demand_traces import OnDemandTraces
from probes.site.runner.own_tests import OwnTests
from probes.site.runner.permit import Permit
from probes.site.runner.schedule import newest_cycles, phase_s, spread
from probes.site.runner.sentinels import Sentinels
from probes.site.runner.slot import Slots
from probes.site.runner.trace_budget import TraceBudget, echo_requests_per_hour
from probes.site.runner.triggered_traces import TriggeredTraces
from probes.site.settings import AgentSettings, limits_file
from probes.site.spool.ledger import Cycle
from probes.site.spool.spool import Spool
from probes.site.wire import OnDemandPing, OnDemandTrace, ToDeliver
from probes.stamp.probe import STAMP
from probes.stamp.reflector.service import ReflectorService
from probes.stamp.spec import ReflectorPlan
from probes.trace.probe import TRACE
from probes.trace.sentinels import SentinelProbe
from probes.trace.spec import TraceTask

logger = logging.getLogger(__name__)


class Agent:
    """One site's agent; its parts may be used from any thread."""

    def __init__(self, settings: AgentSettings) -> None:
        centre = Centre(
            settings.centre,
            Path(settings.token_file),
            further_urls=settings.further_urls,
            allow_plain_http=settings.allow_plain_http,
            identity=settings.identity,
        )
        given = None if settings.limits_file is None else Path(settings.limits_file)
        watched = WatchedLimits(lambda: limits_file(Path(settings.data), given))
        limits = cast("Limits", watched)
        usage = Usage(limits, settings.usage_file)
        own_tests = OwnTests()
        self.settings = settings
        self.centre = centre
        self.journal = Journal(lambda: centre.url)
        self.cycle_clock = CycleClock(centre.clock)
        self.spool = Spool(
            settings.spool_file,
            clock_off_s=centre.clock.off_s,
            now_s=self.cycle_clock.now_s,
            ahead_s=self.cycle_clock.ahead_s,
        )
        self.health_reporter = HealthReporter(centre.clock, self.spool, bugs=lambda: self.journal.handler.bugs)
        self.plans = PlanCache(settings.plan_file)
        self.puller = PlanPuller(self.plans, centre)
        self.delivery = DeliveryLoop(
            self.spool, centre, health=self.health_reporter.for_batch, spread=lambda: spread(self.plans.current())
        )
        permit = Permit(limits, usage)
        self.cycles = Cycles(
            self.spool,
            permit,
            own_tests,
            note=self._note,
            tests_at=DestinationTests(self.plans.current, centre.clock.off_s).periods,
        )
        self.traces = TriggeredTraces(self.cycles.run_besides, self.plans.current)
        self.trace_budget = TraceBudget(
            lambda: TRACE.memory.packets, lambda: echo_requests_per_hour(self.plans.current())
        )
        self.sentinels = Sentinels(
            SentinelProbe(TRACE.memory).run, permit, self.plans.current, self.trace_budget, self.traces.request
        )
        self.slots = Slots(
            self.spool,
            Permit(limits, usage, now=centre.clock.utc_now),
            own_tests,
            now=centre.clock.utc_now,
            note=self.traces.note_slot,
        )
        self.on_demand_pings = OnDemandPings(permit, own_tests, centre.report_pings, now=centre.clock.utc_now)
        self.on_demand_traces = OnDemandTraces(self.cycles, now=centre.clock.utc_now)
        self.services: dict[str, Callable[[threading.Event], None]] = {
            "stamp": partial(watched.serve, self._reflector, ("stamp", "networks")),
            "request-response": partial(watched.serve, self._answering, ("request_response", "networks")),
            "offered-tests": partial(
                watched.serve,
                lambda limits: OfferedTests(limits, usage, own_tests, self.plans.current, now=centre.clock.utc_now),
                ("iperf3_server", "throughput", "networks"),
            ),
        }

    def load_probes(self) -> None:
        """Load the probes of the plan's kinds only."""
        plan = self.plans.current()
        for kind in KINDS.values():
            if plan is not None and plan.of(kind):
                kind.probe()

    def begin(self) -> None:
        """Account for cycles and slots missed while down. Call once, first."""
        self.load_probes()
        heartbeat = self.settings.heartbeat_file
        self.spool.record_start(heartbeat.stat().st_mtime if heartbeat.exists() else None)
        self.slots.settle(self.plans.current())

    def _reflector(self, limits: Limits) -> ReflectorService:
        return ReflectorService(self._reflector_plan, limits.stamp, limits.forbids_address, STAMP.arrivals)

    def _answering(self, limits: Limits) -> AnsweringService:
        return AnsweringService(self._answering_plan, limits.request_response, limits.forbids_address)

    def _reflector_plan(self) -> ReflectorPlan | None:
        plan = self.plans.current()
        return None if plan is None else plan.reflector

    def _answering_plan(self) -> AnsweringPlan | None:
        plan = self.plans.current()
        return None if plan is None else plan.server

    def cycle(self, kind: CycleKind, test: str) -> None:
        """Run a cycle of a test, if the plan still has it."""
        plan = self.plans.current()
        for task in plan.of(kind) if plan is not None else ():
            if task.test == test and plan is not None:
                cycle = Cycle.at(test, task.every_s, self.cycle_clock.now(), phase_s(plan, kind, task.every_s))
                permitted = self.trace_budget.within(kind, task)
                self._run(f"{kind.name} {test}", cycle, partial(self.cycles.run, kind, permitted, cycle))
                if isinstance(task, TraceTask):
                    self.traces.note_cycle(task)

    def _note(self, results: Sequence[ToDeliver]) -> None:
        self.traces.note(results)
        self.sentinels.note(results)

    def ping_on_demand(self, request: OnDemandPing) -> None:
        plan = self.plans.current()
        with self.journal.running(f"on-demand ping to {request.address}"):
            self.on_demand_pings.run(request, () if plan is None else plan.of(KINDS["ping"]))

    def trace_on_demand(self, requests: Sequence[OnDemandTrace]) -> None:
        with self.journal.running(f"on-demand traces of {counted(len(requests), 'path')}"):
            self.on_demand_traces.run(requests)

    def _run(self, name: str, cycle: Cycle, measure: Callable[[], None]) -> None:
        """Run a cycle, unless a copy of the message already has."""
        if not self.spool.claim_cycle(cycle):
            return
        failed = True
        try:
            with self.journal.running(name):
                measure()
            failed = False
        finally:
            self.spool.end_cycle(cycle, failed=failed)

    def beat(self) -> None:
        """Touch the heartbeat file and write the state file."""
        self.settings.heartbeat_file.touch()
        plan = self.plans.current()
        if plan is not None:
            self.spool.set_planned(newest_cycles(plan, self.cycle_clock.now()))
        state = self.journal.state(self.health_reporter.current(), self.delivery.last_accepted_at, self.centre.refusal)
        try:
            write_state(self.settings.state_file, state)
        except OSError as error:
            logger.warning("state: %s cannot be written: %s", self.settings.state_file, error)

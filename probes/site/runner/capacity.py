"""One capacity cycle: the paths of a capacity test, one after the other; each result is spooled when it is there.

Takes a `CapacityTask` of the plan, gives results to the spool. Only one path is measured at a time, in an order of its
own each cycle, so that trains neither meet those of this agent nor always those of the same other one. What the limits
forbid is not sent, and what had no turn within the period is `missed`. When cycles begin is decided by
`probes.site.runner.schedule`.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec

from probes.capacity.probe import MAX_PACKETS, longest_s, not_measured
from probes.capacity.spec import USUAL_S, CapacityRun, CapacitySpec
from probes.contract import Deadline, Outcome, Probe, ProbeError
from probes.ping.resolve import RESOLVE_S, resolve
from probes.site.limits.limits import Limits
from probes.site.limits.usage import Usage
from probes.site.runner.own_tests import OwnTests
from probes.site.spool.ledger import Cycle
from probes.site.spool.spool import Spool
from probes.site.wire import CapacityTarget, CapacityTask, Delivered

logger = logging.getLogger(__name__)


class CapacityCycles:
    """Runs capacity cycles: each test at most once at a time, and one path at a time."""

    def __init__(
        self,
        spool: Spool,
        limits: Limits,
        own_tests: OwnTests,
        probe: Probe[CapacitySpec, CapacityRun],
        *,
        usage: Usage | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._spool = spool
        self._limits = limits
        self._own_tests = own_tests
        self._probe = probe
        self._now = now
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._turn = threading.Lock()
        self._usage = Usage(limits, now=now) if usage is None else usage

    def run(self, task: CapacityTask, cycle: Cycle | None = None) -> None:
        """Measure all paths of `task`, as far as its period goes, and spool the results, as those of `cycle`."""
        with self._lock:
            busy = task.test in self._running
            self._running.add(task.test)
        if busy:
            logger.warning("capacity %s: the cycle before is still running; this one is busy", task.test)
            self._spool.put(
                [self._not_run(task, target, Outcome.BUSY, "the cycle before still runs") for target in task.targets],
                cycle=cycle,
            )
            return
        try:
            self._run_all(task, cycle)
        finally:
            with self._lock:
                self._running.remove(task.test)

    def _run_all(self, task: CapacityTask, cycle: Cycle | None) -> None:
        over_at = self._now() + timedelta(seconds=task.every_s)
        for target in random.sample(task.targets, len(task.targets)):
            with self._turn:
                in_time = self._now() + timedelta(seconds=USUAL_S) <= over_at
                result = (
                    self._measure(task, target)
                    if in_time
                    else self._not_run(task, target, Outcome.MISSED, "its turn did not come within the period")
                )
            self._spool.put([result], cycle=cycle, more=True)

    def _measure(self, task: CapacityTask, target: CapacityTarget) -> Delivered:
        started_at = self._now()
        try:
            run = self._permitted_run(target.spec)
        except ProbeError as error:
            return self._not_run(task, target, error.outcome, str(error))
        during_test = self._own_tests.overlap(started_at, self._now())
        return _delivered(task, target, run, during_test=during_test)

    def _permitted_run(self, spec: CapacitySpec) -> CapacityRun:
        """The run where the limits allow it. Raises ProbeError."""
        answer = resolve([(spec.address, spec.family)], Deadline(RESOLVE_S))[spec.address, spec.family]
        if isinstance(answer, ProbeError):
            raise answer
        address = str(answer[0])
        rule = (
            self._limits.forbids_address(address)
            or self._limits.forbids_time("capacity", self._now(), USUAL_S)
            or self._limits.forbids_trains(address, MAX_PACKETS, self._usage.packets_within_hour(address))
        )
        if rule is not None:
            raise ProbeError(rule, outcome=Outcome.NOT_PERMITTED)
        spacing_s = max(spec.spacing_s, self._limits.ping.min_spacing_s)
        permitted = msgspec.structs.replace(spec, address=address, spacing_s=spacing_s)
        run = self._probe.run(permitted, Deadline(longest_s(permitted)))
        self._usage.note_packets(address, run.sent)
        return msgspec.structs.replace(run, target=spec.address)

    def _not_run(self, task: CapacityTask, target: CapacityTarget, outcome: Outcome, detail: str) -> Delivered:
        return _delivered(task, target, not_measured(target.spec, self._now(), outcome, detail))


def _delivered(task: CapacityTask, target: CapacityTarget, run: CapacityRun, *, during_test: bool = False) -> Delivered:
    return Delivered(sequence=0, path_id=target.path_id, test=task.test, result=run, during_test=during_test)

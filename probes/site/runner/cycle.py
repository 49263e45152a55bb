"""One ping cycle: all targets of a ping test, once; what the limits forbid is not sent, and everything is spooled.

Takes a `PingTask` of the plan, gives results to the spool. A cycle that would begin while the one before still runs
ends as `busy`. When cycles begin is decided by `probes.site.runner.schedule`.
"""

from __future__ import annotations

import ipaddress
import logging
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from probes.contract import Deadline, Outcome, Probe, ProbeError
from probes.ping.rate_limit import longest_s
from probes.ping.resolve import RESOLVE_S, resolve
from probes.ping.spec import Burst, PingSpec, PingTarget
from probes.site.limits.limits import InFlight, Limits
from probes.site.runner.own_tests import OwnTests
from probes.site.spool.ledger import Cycle
from probes.site.spool.spool import Spool
from probes.site.wire import Delivered, PingTask

logger = logging.getLogger(__name__)

DEADLINE_SLACK_S = 10.0


class Cycles:
    """Runs ping cycles; each test at most once at a time, different tests side by side.

    What was lost is checked for a rate limit only where the period leaves the time for it.
    """

    def __init__(
        self,
        spool: Spool,
        limits: Limits,
        own_tests: OwnTests,
        probe: Probe[PingSpec, tuple[Burst, ...]],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._spool = spool
        self._limits = limits
        self._own_tests = own_tests
        self._probe = probe
        self._now = now
        self._lock = threading.Lock()
        self._in_flight: dict[str, InFlight] = {}

    def run(self, task: PingTask, cycle: Cycle | None = None) -> None:
        """Measure all targets of `task` and spool the results, as those of `cycle`, which ends with them."""
        with self._lock:
            busy = task.test in self._in_flight
            if not busy:
                self._in_flight[task.test] = InFlight(task.spec.spacing_s, frozenset())
        if busy:
            logger.warning("ping %s: the cycle before is still running; this one is busy", task.test)
            results = self._not_measured(task, task.spec.targets, Outcome.BUSY, "the cycle before still runs")
            self._spool.put(results, cycle=cycle)
            return
        try:
            self._spool.put(self._measure(task), cycle=cycle)
        finally:
            with self._lock:
                del self._in_flight[task.test]

    def _measure(self, task: PingTask) -> list[Delivered]:
        """Results of the whole cycle: those that could not be measured, and the bursts of the rest."""
        results: list[Delivered] = []
        admitted = self._permitted(task, self._resolved(task, results), results)
        if not admitted:
            return results
        targets = tuple(msgspec.structs.replace(target, address=address) for target, address in admitted)
        min_spacing_s = self._limits.ping.min_spacing_s
        check_s = longest_s(task.spec.spacing_s, task.spec.timeout_s, min_spacing_s)
        spec = msgspec.structs.replace(
            task.spec,
            targets=targets,
            min_spacing_s=min_spacing_s,
            check_rate_limit=task.spec.check_rate_limit and task.spec.duration_s + check_s <= task.every_s,
        )
        try:
            bursts = self._probe.run(spec, Deadline(spec.duration_s + check_s + DEADLINE_SLACK_S))
        except ProbeError as error:
            return results + self._not_measured(task, [target for target, _ in admitted], error.outcome, str(error))
        return results + self._named(task, [target for target, _ in admitted], bursts)

    def _resolved(self, task: PingTask, results: list[Delivered]) -> list[tuple[PingTarget, str]]:
        """The targets with their addresses; those that have none go to `results`."""
        found = []
        names = [(target.address, target.family) for target in task.spec.targets]
        answers = resolve(names, Deadline(RESOLVE_S))
        for target, name in zip(task.spec.targets, names, strict=True):
            answer = answers[name]
            if isinstance(answer, ProbeError):
                results += self._not_measured(task, [target], answer.outcome, str(answer))
            else:
                found.append((target, target.address if _is_literal(target.address) else str(answer[0])))
        return found

    def _permitted(
        self, task: PingTask, found: list[tuple[PingTarget, str]], results: list[Delivered]
    ) -> list[tuple[PingTarget, str]]:
        """The targets that the limits let us measure; the others go to `results` with the rule."""
        with self._lock:
            closed = self._limits.forbids_time("ping", self._now(), task.spec.duration_s)
            rules = (
                self._limits.forbids_targets(task.spec, [address for _, address in found], self._in_flight)
                if closed is None
                else [closed] * len(found)
            )
            admitted = [address for (_, address), rule in zip(found, rules, strict=True) if rule is None]
            self._in_flight[task.test] = InFlight(task.spec.spacing_s, frozenset(admitted))
        for (target, _), rule in zip(found, rules, strict=True):
            if rule is not None:
                results += self._not_measured(task, [target], Outcome.NOT_PERMITTED, rule)
        return [one for one, rule in zip(found, rules, strict=True) if rule is None]

    def _not_measured(
        self, task: PingTask, targets: Iterable[PingTarget], outcome: Outcome, detail: str
    ) -> list[Delivered]:
        """One result without packets for each target and size."""
        return [
            _delivered(
                task,
                target,
                Burst(
                    target=target.address,
                    address=None,
                    family=target.family,
                    packet_bytes=size,
                    started_at=self._now(),
                    outcome=outcome,
                    detail=detail,
                ),
            )
            for target in targets
            for size in task.spec.packet_bytes
        ]

    def _named(self, task: PingTask, targets: list[PingTarget], bursts: tuple[Burst, ...]) -> list[Delivered]:
        """Bursts as results of the targets that the plan names; they come by target and, for each, by size."""
        measured = [target for target in targets for _ in task.spec.packet_bytes]
        return [
            _delivered(
                task,
                target,
                msgspec.structs.replace(burst, target=target.address),
                self._during_test(task.spec, burst),
            )
            for target, burst in zip(measured, bursts, strict=True)
        ]

    def _during_test(self, spec: PingSpec, burst: Burst) -> bool:
        length = timedelta(seconds=(spec.count - 1) * spec.spacing_s + spec.timeout_s)
        return self._own_tests.overlap(burst.started_at, burst.started_at + length)


def _is_literal(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True


def _delivered(task: PingTask, target: PingTarget, burst: Burst, during_test: bool = False) -> Delivered:
    if target.path_id is None:
        raise ValueError(f"ping {task.test}: the plan's target {target.address} has no path_id")
    return Delivered(sequence=0, path_id=target.path_id, test=task.test, result=burst, during_test=during_test)

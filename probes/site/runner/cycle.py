"""One cycle of a repeated test, for any kind: every target once, every result spooled.

A cycle due while the previous runs ends as `busy` (see `CycleKind.overlaps`).
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec

from probes.contract import (
    CycleKind,
    CycleTask,
    Deadline,
    LoadedPeriods,
    LoadPeriod,
    Outcome,
    ProbeError,
    Result,
    Target,
)
from probes.site.runner.failures import deliverable, failure_of
from probes.site.runner.own_tests import OwnTests
from probes.site.runner.permit import Permit
from probes.site.spool.blocks import to_deliver
from probes.site.spool.ledger import Cycle
from probes.site.spool.spool import Spool
from probes.site.wire import BurstBlock, Delivered, ToDeliver

logger = logging.getLogger(__name__)


class Cycles:
    """Runs cycles, different tests side by side."""

    def __init__(
        self,
        spool: Spool,
        permit: Permit,
        own_tests: OwnTests,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        elapsed_s: Callable[[], float] = time.monotonic,
        note: Callable[[Sequence[ToDeliver]], None] = lambda results: None,
        tests_at: Callable[[], Mapping[int, Sequence[LoadPeriod]]] = dict,
    ) -> None:
        self._note = note
        self._tests_at = tests_at
        self._spool = spool
        self._permit = permit
        self._own_tests = own_tests
        self._now = now
        self._elapsed_s = elapsed_s
        self._lock = threading.Lock()
        self._running: Counter[tuple[str, str]] = Counter()
        self._turns: dict[str, threading.Lock] = defaultdict(threading.Lock)

    def run(self, kind: CycleKind, task: CycleTask, cycle: Cycle | None = None, reason: StrEnum | None = None) -> None:
        key = kind.name, task.test
        with self._lock:
            busy = self._running[key] >= (2 if kind.overlaps(task) else 1)
            if not busy:
                self._running[key] += 1
            turn = self._turns[kind.name]
        if busy:
            logger.warning("%s %s: the previous cycle is still running; this cycle is busy", *key)
            results = [
                result
                for target in kind.targets(task)
                for result in self._not_measured(kind, task, target, Outcome.BUSY, "the cycle before still runs")
            ]
            self._spool.put(_with_reason(results, reason), cycle=cycle)
            return
        try:
            if kind.one_at_a_time:
                self._measure_in_turn(kind, task, cycle, turn)
            else:
                measured = _with_reason(self._measure(kind, task, kind.targets(task)), reason)
                self._spool.put(measured, cycle=cycle)
                self._note(measured)
        finally:
            with self._lock:
                self._running[key] -= 1

    def run_besides(self, kind: CycleKind, task: CycleTask, targets: Sequence[Target], reason: StrEnum) -> None:
        """Measure some targets now, outside of any cycle."""
        planned: Any = task
        # Another name, so that the cycle of the test may run meanwhile.
        apart = msgspec.structs.replace(planned, test=f"{task.test} {reason}")
        results: Any = _with_reason(self._measure(kind, apart, targets), reason)
        self._spool.put([msgspec.structs.replace(delivered, test=task.test) for delivered in results])

    def _measure_in_turn(self, kind: CycleKind, task: CycleTask, cycle: Cycle | None, turn: threading.Lock) -> None:
        # In random order, lest two agents always meet at a far end.
        over_s = self._elapsed_s() + task.every_s
        targets = kind.targets(task)
        for target in random.sample(targets, len(targets)):
            with turn:
                in_time = self._elapsed_s() + kind.length_s(task) <= over_s
                results: Sequence[ToDeliver] = (
                    self._measure(kind, task, [target])
                    if in_time
                    else self._not_measured(
                        kind, task, target, Outcome.MISSED, "its turn did not come within the period"
                    )
                )
            self._spool.put(results, cycle=cycle, more=True)

    def _measure(self, kind: CycleKind, task: CycleTask, targets: Sequence[Target]) -> list[ToDeliver]:
        # An exception is the outcome of targets without another.
        began_at = self._now()
        results: list[ToDeliver] = []
        without_result = list(targets)
        try:
            with self._permit.targets(kind, task, targets) as verdicts:
                permitted = []
                for target, verdict in zip(targets, verdicts, strict=True):
                    if isinstance(verdict, ProbeError):
                        results += self._not_measured(kind, task, target, verdict.outcome, str(verdict))
                        without_result.remove(target)
                    else:
                        permitted.append((target, verdict))
                if permitted:
                    results += self._run_probe(kind, task, permitted, began_at)
                    without_result = []
        except Exception as error:  # noqa: BLE001 - failure_of is the rule
            failure = failure_of(error, f"{kind.name} {task.test}")
            for target in without_result:
                results += self._not_measured(kind, task, target, failure.outcome, str(failure))
        return results

    def _run_probe(
        self, kind: CycleKind, task: CycleTask, permitted: Sequence[tuple[Target, Target]], began_at: datetime
    ) -> Sequence[ToDeliver]:
        spec = self._permit.spec(kind, task, [target for _, target in permitted])
        answer = kind.run(kind.probe(), spec, Deadline(kind.longest_s(spec)), lambda: self._loads(permitted))
        in_columns = to_deliver(answer, task.test, [planned for planned, _ in permitted])
        if in_columns is not None:
            return in_columns
        measured = answer if isinstance(answer, tuple) else (answer,)
        per_target, rest = divmod(len(measured), len(permitted))
        if rest:
            raise ValueError(f"{kind.name} {task.test}: {len(measured)} results of {len(permitted)} targets")
        results = []
        for place, (planned, target) in enumerate(permitted):
            own = measured[place * per_target : (place + 1) * per_target]
            self._permit.note_sent(kind, target, own)
            for result in own:
                during_test = self._is_under_load(kind, result, began_at, planned)
                renamed = deliverable(msgspec.structs.replace(result, target=planned.address))
                results.append(_delivered(kind, task, planned, renamed, during_test=during_test))
        return results

    def _not_measured(
        self, kind: CycleKind, task: CycleTask, target: Target, outcome: Outcome, detail: str
    ) -> list[Delivered]:
        results: Iterable[Result] = kind.not_measured(task, target, self._now(), outcome, detail)
        return [_delivered(kind, task, target, result) for result in results]

    def _loads(self, permitted: Sequence[tuple[Target, Target]]) -> LoadedPeriods:
        tests_at = self._tests_at()
        there = {
            index: tests_at[planned.path_id]
            for index, (planned, _) in enumerate(permitted)
            if planned.path_id is not None and planned.path_id in tests_at
        }
        return LoadedPeriods(self._own_tests.periods(), there)

    def _is_under_load(self, kind: CycleKind, result: Result, began_at: datetime, planned: Target) -> bool:
        if kind.is_under_load is not None:
            return kind.is_under_load(result)
        now = self._now()
        there = () if planned.path_id is None else self._tests_at().get(planned.path_id, ())
        return self._own_tests.overlap(began_at, now) or any(
            since <= now and until >= began_at for since, until in there
        )


def _with_reason(results: Sequence[ToDeliver], reason: StrEnum | None) -> Sequence[ToDeliver]:
    if reason is None:
        return results
    with_reason = []
    for delivered in results:
        if isinstance(delivered, BurstBlock):
            raise ValueError(f"{delivered.test}: bursts have no reason")
        result: Any = delivered.result
        with_reason.append(msgspec.structs.replace(delivered, result=msgspec.structs.replace(result, reason=reason)))
    return with_reason


def _delivered(
    kind: CycleKind, task: CycleTask, target: Target, result: Result, *, during_test: bool = False
) -> Delivered:
    if target.path_id is None:
        raise ValueError(f"{kind.name} {task.test}: the plan's target {target.address} has no path_id")
    return Delivered(sequence=0, path_id=target.path_id, test=task.test, result=result, during_test=during_test)

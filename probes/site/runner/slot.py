"""Slots of tests that fill their path: each is claimed, run in its time, and ended once.

A client's late or killed slot ends as `missed`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from probes.contract import Deadline, Outcome, ProbeError, Slot, SlotKind
from probes.kinds import SLOT_KINDS
from probes.site.runner.failures import deliverable, failure_of
from probes.site.runner.own_tests import OwnTests
from probes.site.runner.permit import Declined, Permit
from probes.site.spool.spool import Spool
from probes.site.wire import PLANNED_LATE, Delivered, Plan

logger = logging.getLogger(__name__)

AHEAD = timedelta(seconds=60)
# How long before its slot a test is made ready: the server listens, missing keys are made.
LEAD = timedelta(seconds=2)
LATEST_START = timedelta(seconds=5)
# Time to connect and to exchange results: 1 to 2 s at an RTT of 120 ms, more on a busy machine.
SET_UP_S = 2.0
LATE = timedelta(seconds=1)
# The server's clock may be ahead of ours by this much: it then ends the slot earlier.
CLOCKS_APART_S = 1.0
TRY_AGAIN_S = 1.0
COME_AGAIN = (Outcome.REFUSED, Outcome.BUSY)
KEEP_SLOTS = timedelta(days=1)


class Slots:
    def __init__(
        self,
        spool: Spool,
        permit: Permit,
        own_tests: OwnTests,
        *,
        kinds: Collection[SlotKind] = SLOT_KINDS,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        note: Callable[[Slot], None] = lambda slot: None,
    ) -> None:
        self._note = note
        self._spool = spool
        self._permit = permit
        self._own_tests = own_tests
        self._kinds: dict[type[Any], SlotKind] = {kind.task: kind for kind in kinds}
        self._now = now
        self._pause = threading.Event()
        self._learnt_at: dict[int, datetime] = {}

    def learn(self, before: Plan | None, plan: Plan) -> None:
        """Note the slots of a new plan that had begun before it arrived."""
        now, known = self._now(), set() if before is None else {slot.slot_id for slot in before.slots}
        self._learnt_at = {
            slot.slot_id: self._learnt_at.get(slot.slot_id, now)
            for slot in plan.slots
            if slot.slot_id in self._learnt_at or (slot.slot_id not in known and slot.starts_at < now)
        }

    def prepare(self, slot: Slot) -> None:
        """Make keys before the slot begins: under load it takes longer than the `LEAD`."""
        kind = self._kind(slot)
        if kind.prepare is not None and self._left_s(slot) > 0:
            kind.prepare(slot.spec)

    def due(self, plan: Plan) -> list[Slot]:
        """Unclaimed slots to enqueue: begun, or beginning within the next minute."""
        horizon = self._now() + AHEAD
        taken = self._spool.claimed_slots()
        return [slot for slot in plan.slots if slot.starts_at <= horizon and slot.slot_id not in taken]

    def starts_at(self, slot: Slot) -> datetime:
        """When to call `run`: before the slot, except for unprepared clients."""
        if slot.role == "client" and self._kind(slot).prepare is None:
            return slot.starts_at
        return slot.starts_at - LEAD

    def run(self, slot: Slot) -> None:
        if not self._spool.claim_slot(slot, self._now()):
            return
        self._note(slot)
        if slot.role == "server":
            self._run_server(slot)
        else:
            self._finish(slot, self._client_result(slot))
        self._spool.forget_slots(self._now() - KEEP_SLOTS)

    def settle(self, plan: Plan | None) -> None:
        """Close slots that ran or passed while the agent was down. Call once, before anything runs."""
        for slot in self._spool.unfinished_slots():
            if slot.role == "server":
                self._spool.end_slot(slot.slot_id)
            else:
                self._finish(slot, self._not_run(slot, Outcome.MISSED, "the agent was restarted during the test"))
        for slot in self.due(plan) if plan is not None else []:
            if slot.role == "client" and self._late(slot) > LATEST_START:
                self.run(slot)

    def _kind(self, slot: Slot) -> SlotKind:
        return self._kinds[type(slot)]

    def _finish(self, slot: Slot, run: Any) -> None:
        logger.info("%s slot %d: %s %s", self._kind(slot).name, slot.slot_id, run.outcome, run.detail or "")
        result = Delivered(sequence=0, path_id=slot.path_id, test=slot.test, result=run, slot_id=slot.slot_id)
        self._spool.put([result], ends_slot=slot.slot_id)

    def _client_result(self, slot: Slot) -> Any:
        kind, begun_at = self._kind(slot), max(self._now(), slot.starts_at)
        try:
            return self._complete(kind, self._run_client(kind, slot))
        except Exception as error:  # noqa: BLE001 - failure_of is the rule
            failure = failure_of(error, f"{kind.name} slot {slot.slot_id}")
            failed = kind.not_measured(slot.spec, begun_at, failure.outcome, str(failure))
            return msgspec.structs.replace(failed, **failure.figures)

    def _complete(self, kind: SlotKind, result: Any) -> Any:
        """Leave out dispensable parts if the spool fills up."""
        return deliverable(kind.lightened(result) if self._spool.is_filling else result)

    def _run_client(self, kind: SlotKind, slot: Slot) -> Any:
        if kind.prepare is not None and not self._is_too_late(slot):
            kind.prepare(slot.spec)
            self._pause.wait(max(0.0, -self._late(slot).total_seconds()))
        if self._is_too_late(slot):
            return self._not_run(slot, Outcome.MISSED, self._why_late(slot))
        with self._permit.client(kind, slot) as (spec, used), self._own_tests.running():
            run = self._measure(kind, slot, spec)
            bits = kind.carried_bits(run, used.seconds)
            used.bits = used.bits if bits is None else bits
            return msgspec.structs.replace(run, target=slot.spec.address)

    def _measure(self, kind: SlotKind, slot: Slot, spec: Any) -> Any:
        # Started late and cut off is `missed`.
        probe = kind.probe()
        while True:
            late = self._late(slot)
            try:
                return probe.run(spec, Deadline(self._left_s(slot)))
            except ProbeError as error:
                if not kind.calls_again:
                    raise
                left_s = self._left_s(slot)
                if error.outcome is Outcome.TOOL_FAILURE and late > LATE and left_s < CLOCKS_APART_S:
                    detail = f"started {late.total_seconds():.1f} s late, its slot ended before it finished: {error}"
                    raise ProbeError(detail, outcome=Outcome.MISSED) from error
                # The server may be busy, or not listen yet because clocks differ.
                if error.outcome not in COME_AGAIN or left_s < _needed_s(slot) + TRY_AGAIN_S:
                    raise
            self._pause.wait(TRY_AGAIN_S)

    def _is_too_late(self, slot: Slot) -> bool:
        return self._late(slot) > LATEST_START or self._left_s(slot) < _needed_s(slot)

    def _why_late(self, slot: Slot) -> str:
        learnt_at = self._learnt_at.get(slot.slot_id)
        if learnt_at is not None:
            return f"{PLANNED_LATE} {(learnt_at - slot.starts_at).total_seconds():.1f} s after it began"
        return f"agent started {self._late(slot).total_seconds():.1f} s late"

    def _late(self, slot: Slot) -> timedelta:
        return self._now() - slot.starts_at

    def _run_server(self, slot: Slot) -> None:
        kind, started_at = self._kind(slot), self._now()
        outcome, detail, seen = self._serve(kind, slot)
        if kind.report is not None:
            try:
                report = self._complete(kind, kind.report(slot.spec, started_at, outcome, detail, seen))
            except Exception as error:  # noqa: BLE001 - failure_of is the rule
                failure = failure_of(error, f"{kind.name} slot {slot.slot_id}")
                report = kind.report(slot.spec, started_at, failure.outcome, str(failure), None)
            self._finish(slot, report)
        else:
            logger.info("%s slot %d: %s %s", kind.name, slot.slot_id, outcome, detail)
            self._spool.end_slot(slot.slot_id)

    def _serve(self, kind: SlotKind, slot: Slot) -> tuple[Outcome, str, object | None]:
        try:
            far_end = kind.far_end()
            # No client comes before the slot begins: until then pings are not under load.
            idle = max(timedelta(0), slot.starts_at - self._now() - timedelta(seconds=CLOCKS_APART_S))
            with self._permit.server(kind, slot) as (spec, used), self._own_tests.running(idle):
                seen = far_end.serve(spec, Deadline(self._left_s(slot)))
                if seen is None:
                    used.seconds = used.bits = 0.0
        except Exception as error:  # noqa: BLE001 - failure_of is the rule
            failure = failure_of(error, f"{kind.name} slot {slot.slot_id}")
            logger.warning("%s slot %d: not served: %s", kind.name, slot.slot_id, failure)
            if isinstance(error, Declined):
                self._decline(kind, slot, failure)
            return failure.outcome, str(failure), None
        return (Outcome.MISSED, "nobody came", None) if seen is None else (Outcome.MEASURED, "served it", seen)

    def _decline(self, kind: SlotKind, slot: Slot, reason: ProbeError) -> None:
        try:
            kind.far_end().decline(slot.spec, reason.outcome, str(reason), Deadline(self._left_s(slot)))
        except Exception as error:  # noqa: BLE001 - failure_of is the rule
            failure_of(error, f"{kind.name} slot {slot.slot_id}")

    def _not_run(self, slot: Slot, outcome: Outcome, detail: str) -> Any:
        return self._kind(slot).not_measured(slot.spec, self._now(), outcome, detail)

    def _left_s(self, slot: Slot) -> float:
        return (slot.ends_at - self._now()).total_seconds()


def _needed_s(slot: Slot) -> float:
    return float(slot.spec.length_s) + SET_UP_S

"""Slots of throughput and disk-to-disk tests: each is taken once by this agent, run in its time, and ended once.

As client we measure at `starts_at` and spool the run; as server we listen from shortly before `starts_at` until the
test was served or `ends_at`. What the ends of a disk-to-disk test do is in `probes.site.runner.disk_to_disk`. A
client's slot that was seen or begun too late, or during which the agent was killed, ends as `missed`. Slots come from
the plan; when `run` is called is decided by `probes.site.tasks`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Protocol

import msgspec

from probes.contract import Deadline, Outcome, Probe, ProbeError
from probes.disk_to_disk.spec import DiskToDiskRun
from probes.disk_to_disk.spec import not_measured as disk_to_disk_not_measured
from probes.site.limits.limits import Limits
from probes.site.limits.usage import Usage, Used, carried_bits
from probes.site.runner.disk_to_disk import DiskToDiskEnds
from probes.site.runner.own_tests import OwnTests
from probes.site.spool.spool import Spool
from probes.site.wire import AnySlot, Delivered, DiskToDiskSlot, Plan, ThroughputSlot
from probes.throughput import authentication
from probes.throughput.address import resolve
from probes.throughput.iperf3 import Seen, not_measured
from probes.throughput.spec import Served, ThroughputRun, ThroughputSpec

logger = logging.getLogger(__name__)

AHEAD = timedelta(seconds=60)
LEAD = timedelta(seconds=2)
"""How long before its slot begins a test is made ready: keys are made, the server listens."""
LATEST_START = timedelta(seconds=5)
SET_UP_S = 2.0
"""What connecting and exchanging results take: at a round trip of 120 ms 1 to 2 s, the more the busier the machine."""
LATE = timedelta(seconds=1)
CLOCKS_APART_S = 1.0
"""So long before its slot is over by our clock it may be by the server's, which then ends the test."""
TRY_AGAIN_S = 1.0
COME_AGAIN = (Outcome.REFUSED, Outcome.BUSY)
KEEP_SLOTS = timedelta(days=1)


class Serve(Protocol):
    """Listens for one test until the deadline; what was seen of it, None if nobody came. Raises `ProbeError`."""

    def __call__(self, spec: ThroughputSpec, deadline: Deadline) -> Seen | None: ...


class Slots:
    """Runs the throughput slots of the plan."""

    def __init__(
        self,
        spool: Spool,
        limits: Limits,
        own_tests: OwnTests,
        probe: Probe[ThroughputSpec, ThroughputRun],
        serve: Serve,
        *,
        usage: Usage | None = None,
        disk_to_disk: DiskToDiskEnds | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._spool = spool
        self._limits = limits
        self._own_tests = own_tests
        self._probe = probe
        self._serve = serve
        self._usage = Usage(limits, now=now) if usage is None else usage
        self._now = now
        self._pause = threading.Event()
        self._disk_to_disk = DiskToDiskEnds(limits, self._usage, now=now) if disk_to_disk is None else disk_to_disk

    def due(self, plan: Plan) -> list[AnySlot]:
        """Slots to enqueue now: those that begin within the next minute, or have begun, and were not taken yet."""
        horizon = self._now() + AHEAD
        taken = self._spool.taken_slots()
        return [slot for slot in plan.slots if slot.starts_at <= horizon and slot.slot_id not in taken]

    def starts_at(self, slot: AnySlot) -> datetime:
        """When `run` must be called: ahead of its slot, but for the sender of a file, who has nothing to make ready."""
        if isinstance(slot, DiskToDiskSlot) and slot.role == "client":
            return slot.starts_at
        return slot.starts_at - LEAD

    def run(self, slot: AnySlot) -> None:
        """Run one slot in our role. Does nothing if it was taken before."""
        if not self._spool.take_slot(slot, self._now()):
            return
        if slot.role == "server":
            self._run_server(slot)
        else:
            self._finish(slot, self._run_client(slot))
        self._spool.forget_slots(self._now() - KEEP_SLOTS)

    def settle(self, plan: Plan | None) -> None:
        """End the slots that ran when this agent was killed, and those of its plan that passed while it was away. To be
        called once, before anything runs."""
        for slot in self._spool.unfinished_slots():
            if slot.role == "server":
                self._spool.end_slot(slot.slot_id)
            else:
                self._finish(slot, self._not_run(slot, Outcome.MISSED, "the agent was restarted during the test"))
        for slot in self.due(plan) if plan is not None else []:
            if slot.role == "client" and self._late(slot) > LATEST_START:
                self.run(slot)

    def _finish(self, slot: AnySlot, run: ThroughputRun | DiskToDiskRun) -> None:
        logger.info("%s slot %d to %s: %s %s", _kind(slot), slot.slot_id, run.target, run.outcome, run.detail or "")
        result = Delivered(sequence=0, path_id=slot.path_id, test=slot.test, result=run, slot_id=slot.slot_id)
        self._spool.put([result], ends_slot=slot.slot_id)

    def _run_client(self, slot: AnySlot) -> ThroughputRun | DiskToDiskRun:
        """The run of a client's slot, whatever its outcome."""
        if isinstance(slot, ThroughputSlot) and not self._is_too_late(slot):
            authentication.prepare(slot.spec.one_time_key)
            self._pause.wait(max(0.0, -self._late(slot).total_seconds()))
        if self._is_too_late(slot):
            late_s = self._late(slot).total_seconds()
            return self._not_run(slot, Outcome.MISSED, f"the agent came to it {late_s:.1f} s late")
        try:
            if isinstance(slot, DiskToDiskSlot):
                return self._disk_to_disk.send(slot.spec, Deadline(self._left_s(slot)), self._own_tests)
            with self._permitted_client(slot) as (spec, used), self._own_tests.running():
                run = self._measure(slot, spec)
                bits = carried_bits(run, used.seconds)
                used.bits = used.bits if bits is None else bits
                return msgspec.structs.replace(run, target=slot.spec.address)
        except ProbeError as error:
            return self._not_run(slot, error.outcome, str(error))

    def _measure(self, slot: ThroughputSlot, spec: ThroughputSpec) -> ThroughputRun:
        """Measure; while there is time for a whole test, knock again where nobody listens yet, since clocks differ, or
        where a stranger is being served. What began late and was cut off by the end of its slot was missed."""
        while True:
            late = self._late(slot)
            try:
                return self._probe.run(spec, Deadline(self._left_s(slot)))
            except ProbeError as error:
                left_s = self._left_s(slot)
                if error.outcome is Outcome.TOOL_FAILURE and late > LATE and left_s < CLOCKS_APART_S:
                    said = f"it began {late.total_seconds():.1f} s late, and its slot was over before it: {error}"
                    raise ProbeError(said, outcome=Outcome.MISSED) from error
                if error.outcome not in COME_AGAIN or left_s < _needed_s(slot) + TRY_AGAIN_S:
                    raise
            self._pause.wait(TRY_AGAIN_S)

    def _is_too_late(self, slot: AnySlot) -> bool:
        return self._late(slot) > LATEST_START or self._left_s(slot) < _needed_s(slot)

    def _late(self, slot: AnySlot) -> timedelta:
        return self._now() - slot.starts_at

    def _run_server(self, slot: AnySlot) -> None:
        """Serve one test. Its result is the client's to report; ours is what only this end knows."""
        if isinstance(slot, DiskToDiskSlot):
            self._receive(slot)
            self._spool.end_slot(slot.slot_id)
            return
        served = self._served(slot, self._now())
        logger.info("throughput slot %d: %s: %s", slot.slot_id, served.outcome, served.detail)
        result = Delivered(sequence=0, path_id=slot.path_id, test=slot.test, result=served, slot_id=slot.slot_id)
        self._spool.put([result], ends_slot=slot.slot_id)

    def _receive(self, slot: DiskToDiskSlot) -> None:
        try:
            self._disk_to_disk.receive(slot.spec, Deadline(self._left_s(slot)), self._own_tests, slot.starts_at)
        except ProbeError as error:
            logger.warning("%s slot %d: not served: %s", _kind(slot), slot.slot_id, error)
            return
        logger.info("disk-to-disk slot %d: received", slot.slot_id)

    def _served(self, slot: ThroughputSlot, now: datetime) -> Served:
        """What became of our part of a slot."""
        said = Served(
            family=slot.spec.family,
            started_at=now,
            outcome=Outcome.MEASURED,
            detail="served it",
            sends=slot.spec.reverse,
        )
        try:
            with self._permitted_server(slot) as used, self._own_tests.running():
                seen = self._serve(slot.spec, Deadline(self._left_s(slot)))
                if seen is None:
                    used.seconds = used.bits = 0.0
        except ProbeError as error:
            logger.warning("%s slot %d: not served: %s", _kind(slot), slot.slot_id, error)
            return msgspec.structs.replace(said, outcome=error.outcome, detail=str(error))
        if seen is None:
            return msgspec.structs.replace(said, outcome=Outcome.MISSED, detail="nobody came")
        return msgspec.structs.replace(said, wanted_ratio=seen.wanted_ratio, kernel=seen.kernel)

    @contextmanager
    def _permitted_client(self, slot: ThroughputSlot) -> Iterator[tuple[ThroughputSpec, Used]]:
        """What to run, to the address that the limits were asked about. Raises `ProbeError` with the rule."""
        address = resolve(slot.spec.address, slot.spec.family)
        _require_none(self._limits.forbids_address(address) or self._forbids(slot))
        with self._usage.testing(slot.spec, address) as used:
            yield msgspec.structs.replace(slot.spec, address=address), used

    @contextmanager
    def _permitted_server(self, slot: ThroughputSlot) -> Iterator[Used]:
        """As `_permitted_client`, for the peer that comes."""
        source = slot.spec.source
        peer = None if source is None else resolve(source, slot.spec.family)
        _require_none(self._limits.forbids_peer(peer) or self._forbids(slot))
        with self._usage.testing(slot.spec, peer or "") as used:
            yield used

    def _forbids(self, slot: ThroughputSlot) -> str | None:
        """A server is asked for before its hours begin with its slot."""
        begins_at, spec = max(self._now(), slot.starts_at), slot.spec
        return self._limits.forbids_length(spec) or self._limits.forbids_time("throughput", begins_at, spec.length_s)

    def _not_run(self, slot: AnySlot, outcome: Outcome, detail: str) -> ThroughputRun | DiskToDiskRun:
        if isinstance(slot, DiskToDiskSlot):
            return disk_to_disk_not_measured(slot.spec, self._now(), outcome, detail)
        return not_measured(slot.spec, self._now(), outcome, detail)

    def _left_s(self, slot: AnySlot) -> float:
        return (slot.ends_at - self._now()).total_seconds()


def _require_none(rule: str | None) -> None:
    """Raises `ProbeError` with a rule that forbids something."""
    if rule is not None:
        raise ProbeError(rule, outcome=Outcome.NOT_PERMITTED)


def _needed_s(slot: AnySlot) -> float:
    """Seconds that a whole test takes, but for what it does before it sends."""
    return slot.spec.length_s + SET_UP_S


def _kind(slot: AnySlot) -> str:
    return "disk-to-disk" if isinstance(slot, DiskToDiskSlot) else "throughput"

"""Unscheduled traces when a route may have changed, at most once a path in `QUIET_S`."""

from __future__ import annotations

import logging
import math
import random
import statistics
import threading
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from probes.contract import CycleKind, CycleTask, Slot, Target
from probes.kinds import KINDS
from probes.site.spool.blocks import BurstReplies, figures_of
from probes.site.wire import Plan, ToDeliver
from probes.trace.kind import KIND
from probes.trace.spec import TraceReason, TraceTask

BASELINE_BURSTS = 12
FEWEST_BURSTS = 6
STEP_BURSTS = 2
FEWEST_REPLIES = 3
LEAST_STEP_MS = 1.0
LEAST_STEP_RATIO = 0.03
# A step exceeds each of these; the spread is the baseline's interquartile range.
LEAST_STEP_SPREADS = 4.0


class RttSteps:
    """The minimum RTTs of the last bursts, by path and packet size."""

    def __init__(self) -> None:
        # A deque takes 600 bytes however little is in it, and there are thousands.
        self._minima_ms: dict[tuple[int, int], array[float]] = {}

    def paths(self, bursts: Iterable[BurstReplies]) -> list[int]:
        stepped = []
        for burst in bursts:
            if burst.is_under_load or burst.shortest_ms is None or burst.received < FEWEST_REPLIES:
                continue
            key = burst.path_id, burst.packet_bytes
            minima_ms = self._minima_ms.setdefault(key, array("d"))
            minima_ms.append(burst.shortest_ms)
            del minima_ms[: -BASELINE_BURSTS - STEP_BURSTS]
            if _has_step(minima_ms):
                # The bursts after the step are the next baseline.
                del minima_ms[:-STEP_BURSTS]
                stepped.append(burst.path_id)
        return list(dict.fromkeys(stepped))


logger = logging.getLogger(__name__)

QUIET_S = 60.0
DAY_S = 86_400.0
FLOWS = 16
# Traces over several flows: daily, and when the route has changed, but at most hourly.
FLOWS_QUIET_S = 3600.0
CHANGES = (TraceReason.SENTINEL, TraceReason.TTL_CHANGED, TraceReason.RTT_STEP)
# How long requests are gathered: a change close to us changes many routes at once.
GATHER_S = 0.5

TraceNow = Callable[[CycleKind, CycleTask, Sequence[Target], TraceReason], None]


class TriggeredTraces:
    """Takes requests and traces from its own thread; `trace_now` is `Cycles.run_besides`."""

    def __init__(
        self, trace_now: TraceNow, plan: Callable[[], Plan | None], *, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._trace_now = trace_now
        self._plan = plan
        self._now_s = now_s
        self._changed = threading.Condition()
        self._ttls: dict[int, int] = {}
        self._steps = RttSteps()
        self._traced_at_s: dict[int, float] = {}
        self._requests: dict[int, TraceReason] = {}
        self._flow_requests: set[int] = set()
        self._flows_at_s: dict[int, float] = {}
        self._thread: threading.Thread | None = None

    def note(self, delivered: Iterable[ToDeliver]) -> None:
        """Compare replies' TTL and RTT with earlier bursts for a new route."""
        bursts = list(figures_of(delivered))
        changed = []
        for burst in bursts:
            if burst.ttl is not None:
                before = self._ttls.get(burst.path_id)
                self._ttls[burst.path_id] = burst.ttl
                if before is not None and before != burst.ttl:
                    changed.append(burst.path_id)
        self.request(changed, TraceReason.TTL_CHANGED)
        self.request(self._steps.paths(bursts), TraceReason.RTT_STEP)

    def note_slot(self, slot: Slot) -> None:
        """A throughput test begins: trace the path from this end."""
        plan = self._plan()
        if plan is None:
            return
        if slot.role == "client":
            self.request([slot.path_id], TraceReason.THROUGHPUT_TEST)
            return
        back = [
            target.path_id
            for task in plan.of(KINDS[KIND.name])
            for target in KIND.targets(task)
            if target.address == slot.spec.source and target.path_id is not None
        ]
        self.request(back, TraceReason.THROUGHPUT_TEST)

    def request(self, path_ids: Iterable[int], reason: TraceReason) -> None:
        """Trace these paths soon, if planned and not just traced so."""
        with self._changed:
            now_s = self._now_s()
            for path_id in path_ids:
                if now_s - self._traced_at_s.get(path_id, -QUIET_S) >= QUIET_S:
                    self._traced_at_s[path_id] = now_s
                    self._requests[path_id] = reason
            self._begin()

    def trace_requested(self) -> None:
        with self._changed:
            requests, self._requests = self._requests, {}
            over_flows, self._flow_requests = self._flow_requests, set()
        changed = {path_id for path_id, reason in requests.items() if reason in CHANGES}
        plan = self._plan()
        for task in plan.of(KINDS[KIND.name]) if plan is not None else ():
            for reason in dict.fromkeys(requests.values()):
                targets = [target for target in KIND.targets(task) if requests.get(target.path_id or 0) is reason]
                if targets:
                    logger.info("trace %s: %d targets, %s", task.test, len(targets), reason)
                    self._trace_now(KIND, task, targets, reason)
            self._trace_flows(task, over_flows, changed)

    def note_cycle(self, task: TraceTask) -> None:
        """Request multi-flow traces so that each path gets them daily."""
        with self._changed:
            now_s = self._now_s()
            due = [
                target.path_id
                for target in KIND.targets(task)
                if target.path_id is not None and now_s - self._flows_at_s.get(target.path_id, -DAY_S) >= DAY_S
            ]
            most = math.ceil(len(task.spec.targets) * task.every_s / DAY_S)
            self._flow_requests |= set(random.sample(due, min(most, len(due))))
            self._begin()

    def _trace_flows(self, task: TraceTask, due: Collection[int], changed: Collection[int]) -> None:
        now_s = self._now_s()
        wanted = {*due, *(path for path in changed if now_s - self._flows_at_s.get(path, -DAY_S) >= FLOWS_QUIET_S)}
        targets = [target for target in KIND.targets(task) if target.path_id in wanted]
        self._flows_at_s |= {target.path_id: now_s for target in targets if target.path_id is not None}
        if targets:
            spec = msgspec.structs.replace(task.spec, flows=max(FLOWS, task.spec.flows), max_packets=None)
            logger.info("trace %s: %d targets, %d flows", task.test, len(targets), spec.flows)
            self._trace_now(KIND, msgspec.structs.replace(task, spec=spec), targets, TraceReason.SCHEDULED)

    def _begin(self) -> None:
        """Start the thread if needed, and wake it. Call with the lock."""
        if (self._requests or self._flow_requests) and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="triggered traces", daemon=True)
            self._thread.start()
        self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._requests or self._flow_requests)
            time.sleep(GATHER_S)
            try:
                self.trace_requested()
            except Exception:
                # The next occasion must still be traced; the supervisor counts errors in the log.
                logger.exception("a triggered trace failed")


def _has_step(minima_ms: Sequence[float]) -> bool:
    before, after = minima_ms[:-STEP_BURSTS], minima_ms[-STEP_BURSTS:]
    if len(before) < FEWEST_BURSTS or max(minima_ms) - min(minima_ms) <= LEAST_STEP_MS:
        return False
    quartiles = statistics.quantiles(before, n=4)
    least_ms = max(LEAST_STEP_MS, LEAST_STEP_RATIO * quartiles[1], LEAST_STEP_SPREADS * (quartiles[2] - quartiles[0]))
    steps_ms = [value - quartiles[1] for value in after]
    return min(steps_ms) > least_ms or max(steps_ms) < -least_ms

"""Send sentinels after each ping cycle (`probes.trace.sentinels`), and trace paths with a changed route.

Site limits and the traces' budget apply.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from probes.contract import Deadline, Target
from probes.kinds import KINDS
from probes.site.runner.permit import Permit
from probes.site.runner.trace_budget import TraceBudget
from probes.site.spool.blocks import figures_of
from probes.site.wire import Plan, ToDeliver
from probes.trace.kind import KIND
from probes.trace.spec import TraceReason, TraceSpec, TraceTask

logger = logging.getLogger(__name__)

LONGEST_S = 30.0


class SendSentinels(Protocol):
    """Type of `probes.trace.sentinels.SentinelProbe.run`."""

    def __call__(self, spec: TraceSpec, deadline: Deadline, most_packets: int) -> tuple[int, ...]: ...


class Sentinels:
    """Takes bursts, and sends sentinels from its own thread."""

    def __init__(
        self,
        send: SendSentinels,
        permit: Permit,
        plan: Callable[[], Plan | None],
        budget: TraceBudget,
        request: Callable[[Iterable[int], TraceReason], None],
    ) -> None:
        self._send = send
        self._permit = permit
        self._plan = plan
        self._budget = budget
        self._request = request
        self._changed = threading.Condition()
        self._waiting: set[int] = set()
        self._thread: threading.Thread | None = None

    def note(self, delivered: Iterable[ToDeliver]) -> None:
        bursts = list(figures_of(delivered))
        self._budget.note_pings(sum(burst.packets for burst in bursts))
        with self._changed:
            # Without any reply, sentinels would tell no more than the pings.
            self._waiting |= {burst.path_id for burst in bursts if burst.received > 0}
            if self._waiting and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sentinels", daemon=True)
                self._thread.start()
            self._changed.notify()

    def send_waiting(self) -> None:
        with self._changed:
            waiting, self._waiting = self._waiting, set()
        plan = self._plan()
        for task in plan.of(KINDS[KIND.name]) if plan is not None else ():
            targets = [target for target in KIND.targets(task) if target.path_id in waiting]
            waiting -= {target.path_id for target in targets if target.path_id is not None}
            if targets and task.spec.protocol == "icmp":
                changed = self._changed_paths(task, targets)
                if changed:
                    logger.info("sentinels of %s: the route of %d paths has changed", task.test, len(changed))
                    self._request(changed, TraceReason.SENTINEL)

    def _changed_paths(self, task: TraceTask, targets: Sequence[Target]) -> list[int]:
        # Another name, so that the scheduled traces may run meanwhile.
        apart = msgspec.structs.replace(task, test=f"{task.test} sentinels")
        with self._permit.targets(KIND, apart, targets) as verdicts:
            permitted = [
                (verdict, target)
                for verdict, target in zip(verdicts, targets, strict=True)
                if isinstance(verdict, Target)
            ]
            left = self._budget.left()
            if not permitted or left == 0:
                return []
            spec = self._permit.spec(KIND, apart, [verdict for verdict, _ in permitted])
            changed = self._send(spec, Deadline(LONGEST_S), left)
        return [path_id for index in changed if (path_id := permitted[index][1].path_id) is not None]

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
            try:
                self.send_waiting()
            except Exception:
                # The next cycle must still have its sentinels; the supervisor counts errors in the log.
                logger.exception("sentinels failed")

"""Traces requested by the centre: run once, within the limits, or dropped if late, as they would mislead."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec

from probes.site.runner.cycle import Cycles
from probes.site.wire import OnDemandTrace
from probes.trace.kind import KIND
from probes.trace.spec import ON_DEMAND_TEST, TraceReason, TraceTask

logger = logging.getLogger(__name__)


class OnDemandTraces:
    """Runs on-demand traces, together if their settings and reason agree."""

    def __init__(self, cycles: Cycles, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._cycles = cycles
        self._now = now
        self._turn = threading.Lock()

    def run(self, requests: Sequence[OnDemandTrace]) -> None:
        with self._turn:
            by_task: dict[tuple[bytes, TraceReason], list[OnDemandTrace]] = defaultdict(list)
            for request in requests:
                if self._now() > request.begin_by:
                    logger.warning("on-demand trace %d: too late, to begin by %s", request.run_id, request.begin_by)
                    continue
                settings = msgspec.json.encode(msgspec.structs.replace(request.spec, targets=()))
                by_task[settings, request.reason].append(request)
            for (_, reason), together in by_task.items():
                targets = tuple(target for request in together for target in request.spec.targets)
                spec = msgspec.structs.replace(together[0].spec, targets=targets)
                logger.info("on-demand traces (%s) of %d paths", reason, len(targets))
                self._cycles.run(KIND, TraceTask(test=ON_DEMAND_TEST, every_s=3600, spec=spec), reason=reason)

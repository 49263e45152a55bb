"""Plants a fault in a running lab, change by change, and records each change when it is done."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from probes.lab import control
from probes.lab.control import PathStatus, SetRequest
from tests.e2e.stack import RunningStack
from tests.lab_truth.faults import LabFault, PlannedChange
from tests.lab_truth.truth import Signal

Record = Callable[[dict[str, Any]], None]
POLICER_MBPS = 1000.0
"""Fills a shallow bucket faster than any packets empty it, so that it drops by size alone."""


class Planting(Protocol):
    """A fault on its way: `step` does the changes that are due, `restore` all that are left."""

    def step(self, since_begin_s: float) -> None: ...

    def restore(self) -> None: ...


class LabPlanting:
    """The changes of directions of the lab, by its control socket."""

    def __init__(self, stack: RunningStack, fault: LabFault, record: Record) -> None:
        self._run_dir = stack.data / "lab"
        self._waiting = sorted(fault.changes, key=lambda change: change.at_s)
        self._record = record
        paths = control.ask_status(self._run_dir).paths
        self._paths = {(path.source, path.destination): path for path in paths}

    def step(self, since_begin_s: float) -> None:
        while self._waiting and self._waiting[0].at_s <= since_begin_s:
            self._apply(self._waiting.pop(0))

    def restore(self) -> None:
        while self._waiting:
            change = self._waiting.pop(0)
            if change.value is None:
                self._apply(change)

    def _apply(self, change: PlannedChange) -> None:
        changes = settings_of(change, self._paths[change.source, change.destination])
        control.ask(self._run_dir, SetRequest(source=change.source, destination=change.destination, changes=changes))
        self._record(change_line(change))


def settings_of(change: PlannedChange, path: PathStatus) -> dict[str, float | int | None]:
    """The lab's settings for a change; those of the scenario where it has no value."""
    usual = path.original or path.settings
    if change.signal is Signal.RTT:
        return {"delay_ms": usual.delay_ms + (change.value or 0.0)}
    if change.signal is Signal.JITTER:
        return {"jitter_ms": usual.jitter_ms if change.value is None else change.value}
    if change.signal is Signal.RATE:
        return {"rate_mbps": usual.rate_mbps if change.value is None else change.value / 1e6}
    if change.over_bytes:
        return {"policer_mbps": POLICER_MBPS, "policer_bytes": change.over_bytes}
    return {"loss_ratio": usual.loss_ratio if change.value is None else change.value, "policer_mbps": None}


def change_line(change: PlannedChange) -> dict[str, Any]:
    """The stored line of a change that was made just now."""
    return {
        "type": "change",
        "at": time.time(),
        "signal": change.signal,
        "source": change.source,
        "destination": change.destination,
        "value": change.value,
        "over_bytes": change.over_bytes,
    }

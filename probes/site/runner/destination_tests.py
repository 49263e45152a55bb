"""Throughput tests between our destinations and other sites, by this host's clock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from probes.contract import LoadPeriod
from probes.site.wire import Plan


class DestinationTests:
    """The periods by path. Safe to use from any thread."""

    def __init__(self, plan: Callable[[], Plan | None], clock_off_s: Callable[[], float | None]) -> None:
        self._plan = plan
        self._clock_off_s = clock_off_s
        self._lock = threading.Lock()
        self._converted: tuple[str, float, dict[int, tuple[LoadPeriod, ...]]] = ("", 0.0, {})

    def periods(self) -> Mapping[int, tuple[LoadPeriod, ...]]:
        plan, off_s = self._plan(), self._clock_off_s() or 0.0
        if plan is None:
            return {}
        with self._lock:
            version, with_off_s, periods = self._converted
            if (version, with_off_s) != (plan.version, off_s):
                periods = {path_id: _periods(of_path, off_s) for path_id, of_path in plan.tests_at_destinations.items()}
                self._converted = plan.version, off_s, periods
            return periods


def _periods(of_path: tuple[tuple[int, int], ...], off_s: float) -> tuple[LoadPeriod, ...]:
    off = timedelta(seconds=off_s)
    return tuple(
        (datetime.fromtimestamp(begin_s, UTC) + off, datetime.fromtimestamp(end_s, UTC) + off)
        for begin_s, end_s in of_path
    )

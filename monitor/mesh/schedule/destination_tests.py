"""Tell an agent which throughput tests of other sites load its paths' destinations, whether or not they ran."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from monitor.mesh.models import SlotHost

if TYPE_CHECKING:
    from monitor.mesh.plan_rows import PlannedPath

# A plan has tests of this window and both neighbours: results of a cycle take a window at most.
# By whole windows, so that the plan changes only where a slot is planned late or another window begins.
WINDOW_S = 600
# An agent's clock may be ahead by this much (`probes.site.runner.slot.CLOCKS_APART_S`): its tests begin earlier.
AHEAD_S = 1

Period = tuple[int, int]
# A site and the uplink of a host there: hosts with the same share a test's load.
Link = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class _TestsOfWindow:
    """Slots of the mesh in three windows, by link and site."""

    window: int
    slots_epoch: int
    periods: dict[Link, list[tuple[int, Period]]] = field(default_factory=lambda: defaultdict(list))
    sites: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))


# Of this process: all agents fetch the same slots, every few seconds each.
_kept: _TestsOfWindow | None = None


def destination_tests(
    site_id: int, paths: Iterable[PlannedPath], slots_epoch: int | None, now: datetime
) -> dict[int, tuple[Period, ...]]:
    """Periods in whole seconds since the epoch, by path, oldest first.

    No query, unless slots changed since the last call or the window is new.
    """
    if not slots_epoch:  # nothing was ever reserved
        return {}
    tests = _tests_of_window(int(now.timestamp()) // WINDOW_S, slots_epoch)
    of_paths = {}
    for path in paths:
        link = path.destination.site_id, path.destination.uplink_id
        periods = dict.fromkeys(
            period for slot_id, period in tests.periods.get(link, ()) if site_id not in tests.sites[slot_id]
        )
        if periods:
            of_paths[path.pk] = tuple(periods)
    return of_paths


def _tests_of_window(window: int, slots_epoch: int) -> _TestsOfWindow:
    global _kept
    kept = _kept
    if kept is not None and (kept.window, kept.slots_epoch) == (window, slots_epoch):
        return kept
    tests = _TestsOfWindow(window, slots_epoch)
    since, until = (datetime.fromtimestamp((window + step) * WINDOW_S, UTC) for step in (-1, 2))
    rows = SlotHost.objects.filter(ends_at__gt=since, starts_at__lt=until).order_by("starts_at", "slot_id", "host_id")
    for slot_id, starts_at, ends_at, *link in rows.values_list(
        "slot_id", "starts_at", "ends_at", "host__site_id", "host__uplink_id"
    ):
        begins_at = starts_at - timedelta(seconds=AHEAD_S)
        period = int(begins_at.timestamp()), int(ends_at.timestamp())
        tests.periods[link[0], link[1]].append((slot_id, period))
        tests.sites[slot_id].add(link[0])
    _kept = tests
    return tests

"""The number of scheduled bursts, counted from the mesh alone: for tests of the archive, which counts them by SQL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from django.db.models import Q

from monitor.mesh.models import MeasurementPeriod


def planned_bursts(
    since: datetime, until: datetime, *, path_ids: Sequence[int] | None = None
) -> dict[tuple[int, int], int]:
    """Number of bursts of each (path_id, packet_bytes) scheduled with cycles starting in [since, until).

    Cycles start at multiples of `every_s` since the epoch. Times when a measurement was not in use do not count.
    """
    rows = MeasurementPeriod.objects.filter(Q(ended_at=None) | Q(ended_at__gt=since), started_at__lt=until)
    if path_ids is not None:
        rows = rows.filter(measurement__path__in=path_ids)
    columns = ("measurement__path_id", "packet_bytes", "every_s", "started_at", "ended_at")
    counts: dict[tuple[int, int], int] = defaultdict(int)
    for path_id, sizes, every_s, started_at, ended_at in rows.values_list(*columns):
        end = until if ended_at is None else min(until, ended_at)
        cycles = _cycles(max(since, started_at), end, every_s)
        for packet_bytes in sizes:
            counts[path_id, packet_bytes] += cycles
    return dict(counts)


def _cycles(since: datetime, until: datetime, every_s: int) -> int:
    """Number of multiples of `every_s` seconds in [since, until)."""
    return max(0, _periods_before(until, every_s) - _periods_before(since, every_s))


def _periods_before(at: datetime, every_s: int) -> int:
    """Number of multiples of `every_s` since the epoch, 0 included, before `at`."""
    return -int(-at.timestamp() // every_s)

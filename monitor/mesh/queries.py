"""What others ask of the mesh besides its rows: how much was planned, so that coverage can be told.

What was measured is in `monitor.archive.queries`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from django.db.models import Count, Q

from monitor.mesh.document import LossRule
from monitor.mesh.models import MeasurementPeriod, Mesh, Site, Slot


def planned_bursts(
    since: datetime, until: datetime, *, path_ids: Sequence[int] | None = None
) -> dict[tuple[int, int], int]:
    """How many bursts of each (path_id, packet_bytes) the mesh asked for with cycles starting in [since, until).

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
    """How many multiples of `every_s` seconds lie in [since, until)."""
    return max(0, _periods_before(until, every_s) - _periods_before(since, every_s))


def _periods_before(at: datetime, every_s: int) -> int:
    """How many multiples of `every_s` since the epoch, 0 included, are before `at`."""
    return -int(-at.timestamp() // every_s)


def slot_outcomes(
    since: datetime, until: datetime, *, path_ids: Sequence[int] | None = None
) -> dict[tuple[int, str | None], int]:
    """How many throughput slots of each (path_id, outcome) started in [since, until). None: not reported yet."""
    rows = Slot.objects.filter(starts_at__gte=since, starts_at__lt=until)
    if path_ids is not None:
        rows = rows.filter(measurement__path__in=path_ids)
    counted = rows.values_list("measurement__path_id", "outcome").annotate(slots=Count("pk")).order_by()
    return {(path_id, outcome): slots for path_id, outcome, slots in counted}


def home_site() -> Site | None:
    """The site whose agent runs beside the centre, if mesh.toml names one."""
    mesh = Mesh.objects.first()
    return None if mesh is None else Site.objects.in_use().filter(name=mesh.home_site).first()


def loss_rule() -> LossRule | None:
    """The loss rule of [alerts.loss]; None where mesh.toml has none, or nothing was applied yet."""
    mesh = Mesh.objects.first()
    rule = None if mesh is None else mesh.alerts.get("loss")
    return None if rule is None else LossRule(**rule)

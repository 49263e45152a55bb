"""The grid in sheets of paths, for programs, at any mesh size."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef

from monitor.archive.queries.metrics import Metric
from monitor.mesh.models import Group, KindName, Measurement, Path
from monitor.overview.grid import ComparedPeriod, Grid, GridPeriod, load_grid


@dataclass(frozen=True, slots=True)
class GridSheet:
    grid: Grid
    paths_in_all: int  # number of all


def load_grid_sheet(
    metric: Metric,
    period: GridPeriod,
    now: datetime,
    *,
    packet_bytes: int | None,
    group: str | None,
    against: ComparedPeriod | None,
    limit: int,
    offset: int,
) -> GridSheet:
    """At most `limit` paths after `offset`, by id. Raises `UnknownChoice`."""
    kind = KindName.THROUGHPUT if metric is Metric.THROUGHPUT else KindName.PING
    measured = Measurement.objects.filter(path=OuterRef("pk"), retired_at=None, test__kind__in=kind.alternatives)
    paths = Path.objects.filter(Exists(measured), retired_at=None).order_by("id")
    if group is not None:
        members = list(Group.objects.in_use().filter(name=group).values_list("sites", flat=True))
        paths = paths.filter(source__site__in=members, destination__site__in=members)
    total = paths.count()
    is_whole = total <= limit and offset == 0
    path_ids = None if is_whole else list(paths.values_list("id", flat=True)[offset : offset + limit])
    grid = load_grid(metric, period, now, packet_bytes=packet_bytes, group=group, against=against, path_ids=path_ids)
    return GridSheet(grid, total)

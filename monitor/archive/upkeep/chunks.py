"""Choose each hypertable's chunk interval so that the newest chunk fits in memory. No effect without TimescaleDB."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import Count

from monitor.archive.statements import statement
from monitor.archive.upkeep.server import hypertables, server
from monitor.mesh.kinds import MESH_KINDS
from monitor.mesh.models import MeasurementPeriod

# Share of memory for the newest chunk with its indexes, as TimescaleDB advises.
SHARE_OF_MEMORY = 0.25
ONE_DAY = timedelta(days=1)
DAY_S = 86_400
DAY_H = 24
# Row of `burst_hour` with its sketch and minima, indexes included.
BURST_HOUR_BYTES = 430
# Allowed intervals; few, so that a small change of the mesh changes none.
SPANS = [timedelta(hours=hours) for hours in (1, 2, 3, 4, 6, 8, 12, 24, 48, 96, 168, 336, 720)]


def span_for(bytes_a_day: float, memory_bytes: int) -> timedelta:
    """Longest of `SPANS` with data within a quarter of the memory; else the shortest."""
    fitting = [span for span in SPANS if bytes_a_day * (span / ONE_DAY) <= SHARE_OF_MEMORY * memory_bytes]
    return max(fitting, default=SPANS[0])


def planned_bytes() -> dict[str, float]:
    """Planned bytes a day, indexes included, by table."""
    bytes_a_day: dict[str, float] = defaultdict(float)
    plan = MeasurementPeriod.objects.filter(ended_at=None).values_list(
        "measurement__test__kind", "measurement__test__parameters", "every_s", "packet_bytes"
    )
    for kind, parameters, every_s, sizes, paths in plan.annotate(Count("pk")).order_by():
        runs = DAY_S / every_s
        bytes_a_day[MESH_KINDS[kind].table] += paths * runs * MESH_KINDS[kind].result_bytes(parameters)
        if sizes:
            bytes_a_day["burst_hour"] += paths * min(runs, DAY_H) * len(sizes) * BURST_HOUR_BYTES
    return dict(bytes_a_day)


def choose(**_: Any) -> dict[str, timedelta]:
    """Set the interval of each hypertable; return changed intervals. Also a signal receiver."""
    of = server()
    tables = hypertables(of)
    if not tables:
        return {}
    planned = planned_bytes()
    changed = {}
    for table in tables:
        bytes_a_day = planned.get(table.name)
        span = span_for(bytes_a_day, of.cache_bytes) if bytes_a_day else table.chunk_interval
        if span != table.chunk_interval:
            changed[table.name] = span
    with connection.cursor() as cursor:
        for name, span in changed.items():
            cursor.execute(statement("set_chunk_interval"), {"table": name, "span_s": span.total_seconds()})
    return changed

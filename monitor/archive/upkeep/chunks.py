"""Choose the chunk interval of each hypertable so that the chunk being written fits in memory.

In: the mesh's schedule, and the server's effective cache size. Out: TimescaleDB's interval for future chunks. Does
nothing without TimescaleDB.
"""

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

SHARE_OF_MEMORY = 0.25
"""Share of memory for the newest chunk with its indexes, as TimescaleDB advises."""
ONE_DAY = timedelta(days=1)
DAY_S = 86_400
DAY_H = 24
BURST_HOUR_BYTES = 430
"""Row of `burst_hour` with its sketch and minima, indexes included."""
SPANS = [timedelta(hours=hours) for hours in (1, 2, 3, 4, 6, 8, 12, 24, 48, 96, 168, 336, 720)]
"""Allowed intervals; few, so that a small change of the mesh changes none."""


def span_for(bytes_a_day: float, memory_bytes: int) -> timedelta:
    """The longest of `SPANS` whose data fit in a quarter of the memory; else the shortest."""
    fitting = [span for span in SPANS if bytes_a_day * (span / ONE_DAY) <= SHARE_OF_MEMORY * memory_bytes]
    return max(fitting, default=SPANS[0])


def planned_bytes() -> dict[str, float]:
    """Bytes a day, indexes included, that the mesh as it is now brings to each table of results and to `burst_hour`."""
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
    """Set the interval of each hypertable with a schedule; returns those changed. Also a signal receiver."""
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

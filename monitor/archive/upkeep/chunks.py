"""How much time a chunk of each hypertable spans: so much that the chunk that is being written stays in memory.

In: what the mesh plans, and how much memory the server says that there is for its data. Out: TimescaleDB's chunk
interval, for chunks that are made from now on. Without TimescaleDB there is nothing to choose.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import connection

from monitor.archive.statements import ask, statement
from monitor.archive.upkeep.server import hypertables, server

SHARE_OF_MEMORY = 0.25
"""As TimescaleDB advises for the newest chunk with its indexes."""
ONE_DAY = timedelta(days=1)
SPANS = [timedelta(hours=hours) for hours in (1, 2, 3, 4, 6, 8, 12, 24, 48, 96, 168, 336, 720)]
"""Few, so that a small change of the mesh changes none."""


def span_for(bytes_a_day: float, memory_bytes: int) -> timedelta:
    """The longest of `SPANS` in which no more comes than a quarter of the memory; else the shortest."""
    fitting = [span for span in SPANS if bytes_a_day * (span / ONE_DAY) <= SHARE_OF_MEMORY * memory_bytes]
    return max(fitting, default=SPANS[0])


def choose(**_: Any) -> dict[str, timedelta]:
    """Set the interval of each hypertable that the mesh plans something for; returns those that changed. A signal's
    receiver, too."""
    of = server()
    found = hypertables(of)
    if not found:
        return {}
    names, rows = ask("planned_bytes")
    planned = dict(zip(names, rows[0], strict=True))
    changed = {}
    for table in found:
        bytes_a_day = planned.get(table.name)
        span = span_for(float(bytes_a_day), of.cache_bytes) if bytes_a_day else table.chunk_interval
        if span != table.chunk_interval:
            changed[table.name] = span
    with connection.cursor() as cursor:
        for name, span in changed.items():
            cursor.execute(statement("set_chunk_interval"), {"table": name, "span_s": span.total_seconds()})
    return changed

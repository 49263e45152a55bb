"""Bytes and time of a day of bursts in the database, and in the files that they move to.

Ten packets a burst, a burst each minute, RTTs of a queue above a base, 0.5% lost: noise of nanoseconds does not
compress, as that of real packets does not.
"""

from __future__ import annotations

import os
import tempfile
import time
from datetime import UTC, datetime, timedelta

import django
from django.core.management import call_command

from tests.bench import Row
from tests.bench.archive import database

PATHS = 200
DAY = datetime(2026, 3, 14, tzinfo=UTC)
OPENINGS = 20
FILL = """
INSERT INTO burst (path_id, measured_at, packet_bytes, outcome, sent, received, duplicates, reordered, ttl, during_test,
    rate_limited, flow, source_address, stamp, clock_source, address, rtts_ms)
SELECT path_id, %(day)s::timestamptz + make_interval(mins => minute, secs => path_id * 0.037 + random() * 0.001), 100,
    'measured', 10, (SELECT count(rtt) FROM unnest(rtts_ms) AS rtt), 0, 0, 50 + path_id %% 9, FALSE, FALSE,
    path_id * 7 %% 65521, '192.0.2.1'::inet, 'kernel', 'tsc', '198.51.100.0'::inet + path_id, rtts_ms
FROM generate_series(1, %(paths)s) AS path_id, generate_series(0, 1439) AS minute, LATERAL (
    SELECT array_agg(CASE WHEN random() > 0.005
        THEN (5 + path_id %% 90 + 0.05 * -ln(1 - random()) + 0 * packet)::real END) AS rtts_ms
    FROM generate_series(1, 10) AS packet
    WHERE minute IS NOT NULL
) AS packets
"""


def run() -> list[Row]:
    """Bytes of a burst in both, and what moving and opening take."""
    with database() as name, tempfile.TemporaryDirectory(prefix="soundings-cold-") as folder:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
        os.environ["SOUNDINGS_COLD_BURSTS"] = folder
        django.setup()
        call_command("migrate", verbosity=0)
        return [Row(f"{PATHS * 1440:,} bursts of {PATHS} paths in a day", name), *_measure()]


def _measure() -> list[Row]:
    from django.db import connection

    from monitor.archive.cold import days
    from monitor.archive.queries.paths import raw_bursts
    from probes.contract import Deadline

    with connection.cursor() as cursor:
        cursor.execute(FILL, {"day": DAY, "paths": PATHS})
        cursor.execute("VACUUM ANALYZE burst")
        cursor.execute("SELECT pg_total_relation_size('burst')")
        in_database = cursor.fetchone()[0]
    end = DAY + timedelta(days=1)

    def opened_s() -> float:
        begun = time.perf_counter()
        for path_id in range(1, OPENINGS + 1):
            assert len(raw_bursts(path_id, DAY, end)) == 1440
        return (time.perf_counter() - begun) / OPENINGS

    stored_s = opened_s()
    begun = time.perf_counter()
    days.move(DAY, end, Deadline(0))
    moved_s = time.perf_counter() - begun
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE burst")
    cold_s = opened_s()
    cold = days.totals()
    bursts = PATHS * 1440
    return [
        Row("in the database, with its indexes", f"{in_database / bursts:.0f} bytes a burst"),
        Row(
            "in files",
            f"{cold.size_bytes / bursts:.0f} bytes a burst, {cold.size_bytes / in_database:.2f} of the database",
            "0.25",
        ),
        Row("moved", f"{bursts / moved_s:,.0f} bursts/s"),
        Row("a day of a path opened", f"{cold_s * 1e3:.0f} ms, {stored_s * 1e3:.0f} ms from the database"),
    ]

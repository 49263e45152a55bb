"""Processor time of pages and API on 1,000 sites in 20 groups with 100,000 paths: web server and PostgreSQL.

A database of its own, or an empty one in SOUNDINGS_DATABASE_URL, is filled in SQL: each site pings the others of its
group and 51 more. Each path has a burst of now, the summaries of two hours, and those of `DAYS` days. Gunicorn serves
the pages as `manage.py up` does. `first` is a page that finds nothing kept, `again` a page directly after it, and
`refreshed` one that comes when the kept results are old, with the work beside it. Takes some minutes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

from tests.bench import Row
from tests.bench.grid_page import empty_database
from tests.bench.processes import cpu_s, descendants
from tests.bench.serving import web_server

SITES, GROUP_SITES, PATHS_PER_SITE, DAYS = 1000, 50, 100, 14
OLD_AFTER_S = 31
PAGES = (
    "/", "/?metric=rtt", "/?metric=estimate", "/?from=group-03&to=group-03&period=hour", "/paths/", "/sites/",
    "/status/", "/map/", "/map/?metric=rtt", "/map/?from=group-03&to=group-03&period=hour", "/?wall=1",
    "/?wall=1&metric=rtt", "/table/", "/api/v1/grid?period=hour", "/api/v1/grid?period=now", "/api/v1/centre",
)  # fmt: skip
FILLING = (
    """
    INSERT INTO site (id, name, title, latitude_deg, longitude_deg, country, region, has_agent)
    SELECT
        n, 'site-' || lpad(n::text, 4, '0'), 'Site ' || n, (n * 37) %% 120 - 50, (n * 101) %% 340 - 170, 'CH',
        'Region ' || n %% 8, TRUE
    FROM generate_series(0, %(sites)s - 1) AS n
    """,
    """
    INSERT INTO host (id, site_id, name, address, family, for_ping, for_throughput)
    SELECT id, id, 'host-' || id, '10.0.' || id / 250 || '.' || id %% 250 + 1, 4, TRUE, TRUE FROM site
    """,
    """
    INSERT INTO path (id, source_id, destination_id, family)
    SELECT row_number() OVER (ORDER BY source, number), source, destination, 4
    FROM (
        SELECT
            source.id AS source, destination.id AS destination,
            row_number() OVER (
                PARTITION BY source.id
                ORDER BY source.id / %(group)s <> destination.id / %(group)s,
                    (source.id * 7919 + destination.id * 104729) %% 1000003
            ) AS number
        FROM host AS source, host AS destination
        WHERE source.id <> destination.id
    ) AS pair
    WHERE number <= %(paths)s
    """,
    """
    INSERT INTO test (id, name, kind, every_s, parameters)
    VALUES (1, 'ping', 'ping', 30, '{"count": 10, "packet_bytes": [100], "spacing_s": 1.0}')
    """,
    "INSERT INTO measurement (path_id, test_id, started_at)"
    " SELECT id, 1, now() - %(days)s * interval '1 day' FROM path",
    "INSERT INTO measurement_period (measurement_id, every_s, packet_bytes, started_at)"
    " SELECT id, 30, '{100}', started_at FROM measurement",
    "INSERT INTO site_group (id, name, shape) SELECT n, 'group-' || lpad(n::text, 2, '0'), 'mesh'"
    " FROM generate_series(0, %(sites)s / %(group)s - 1) AS n",
    "INSERT INTO site_group_sites (group_id, site_id) SELECT id / %(group)s, id FROM site",
    """
    INSERT INTO burst (
        path_id, measured_at, packet_bytes, outcome, sent, received, duplicates, reordered, during_test, rtts_ms
    )
    SELECT id, now() - make_interval(secs => 5 + id %% 50), 100, 'measured', 10, 10, 0, 0, FALSE,
        array_fill((5 + id %% 300)::real, ARRAY[10])
    FROM path
    """,
    *(
        f"""
        INSERT INTO burst_{tier} (
            path_id, packet_bytes, {tier}, bursts, bursts_all_lost, bursts_none_lost, bursts_during_test,
            bursts_not_measured, bursts_planned, sent, received, duplicates, reordered, rtt_min_ms, rtt_median_ms,
            rtt_p25_ms, rtt_p75_ms, rtt_p95_ms, rtt_max_ms, rtt_avg_ms, ipdv_ms
        )
        SELECT
            id, 100, date_trunc('{tier}', now(), 'UTC') - ago * interval '1 {tier}', {hours} * 120,
            CASE WHEN lost = 1200 THEN {hours} * 120 ELSE 0 END, 120, 0, 0, {hours} * 120, {hours} * 1200,
            {hours} * (1200 - lost), 0, 0,
            rtt_ms, rtt_ms, rtt_ms, rtt_ms, rtt_ms, rtt_ms, rtt_ms, 0.5
        FROM (
            SELECT
                id, CASE WHEN lost < 1200 THEN 5 + id %% 300 END AS rtt_ms, lost
            FROM (
                SELECT
                    id, CASE
                        WHEN id * 48271::bigint %% 1000 < 1 THEN 1200 WHEN id * 48271::bigint %% 1000 < 30 THEN id %% 60
                        ELSE 0
                    END AS lost
                FROM path
            ) AS path
        ) AS path, generate_series(0, {steps}) AS ago
        """
        for tier, hours, steps in (("hour", 1, "1"), ("day", 24, "%(days)s - 1"))
    ),
)  # fmt: skip


def run() -> list[Row]:
    """The rows of all pages, on a mesh that is planted for them."""
    with empty_database() as name:
        plant()
        return [Row("database", name), *measure()]


def plant() -> None:
    """Fill the empty database."""
    from django.db import connection
    from django.utils import timezone

    from monitor.mesh.models import Mesh

    with connection.cursor() as cursor:
        for statement in FILLING:
            cursor.execute(
                statement,
                {"sites": SITES, "group": GROUP_SITES, "paths": PATHS_PER_SITE, "days": DAYS},
            )
        cursor.execute("VACUUM (ANALYZE)")
    Mesh.objects.create(name=f"{SITES} sites", applied_at=timezone.now())


def measure(pages: tuple[str, ...] = PAGES) -> list[Row]:
    """The rows of the mesh that is planted."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        server = int(Path(f"/proc/{cursor.fetchone()[0]}/stat").read_text().rpartition(")")[2].split()[1])
    rows = []
    with web_server(_wake) as port:
        web = min(pid for pid in descendants(os.getpid()) if pid != os.getpid() and _is_web(pid))
        _cost(web, server, lambda: 0, beside=True)  # what the server does before its first reader
        for page in pages:
            size, first = _cost(web, server, lambda page=page: _ask(port, page))
            _, again = _cost(web, server, lambda page=page: _ask(port, page))
            time.sleep(OLD_AFTER_S)
            _, refreshed = _cost(web, server, lambda page=page: _ask(port, page), beside=True)
            rows.append(Row(page, f"first {first}, again {again}, refreshed {refreshed}, {size / 1000:,.0f} kB"))
            print(rows[-1].measure, rows[-1].value, flush=True)
            time.sleep(OLD_AFTER_S)
    return rows


def _cost(web: int, server: int, ask: Callable[[], int], *, beside: bool = False) -> tuple[int, str]:
    """Bytes of an answer, and the processor time of web server and PostgreSQL with the seconds until it came. With the
    work `beside` it, the time is counted until nothing runs any more."""
    before = cpu_s(descendants(web)), cpu_s(descendants(server))
    begun = time.perf_counter()
    size = ask()
    took_s = time.perf_counter() - begun
    after = cpu_s(descendants(web)), cpu_s(descendants(server))
    while beside:
        time.sleep(0.5)
        newest = cpu_s(descendants(web)), cpu_s(descendants(server))
        beside = sum(newest) - sum(after) > 0.05
        after = newest
    return size, f"{after[0] - before[0]:.2f} + {after[1] - before[1]:.2f} s in {took_s:.1f} s"


def _is_web(pid: int) -> bool:
    return b"gunicorn" in Path(f"/proc/{pid}/cmdline").read_bytes()


def _wake(port: int) -> None:
    for _ in range(8):
        _ask(port, "/calculator/")


def _ask(port: int, address: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("GET", address, headers={"Host": "localhost"})
    response = connection.getresponse()
    size = len(response.read())
    if response.status != 200:
        print(f"{address}: answered {response.status}, {response.getheader('Location')}")
    return size

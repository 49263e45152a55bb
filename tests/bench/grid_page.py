"""The grid of sites on meshes of 5, 100 and 300 sites: from the click until a cell answers the pointer, the
server's share of it, the bytes, and the bytes of a refresh.

A database of its own, or an empty database in SOUNDINGS_DATABASE_URL, is filled in SQL: all sites ping each other, of
which each path has three bursts; 3% of the paths and all to a site have some loss, and 0.2% none of their replies.
Gunicorn serves the page as `manage.py up` does, and Chromium opens it with an empty cache. The figures are medians of
five visits. The largest mesh has 270,000 bursts, so it runs only when named, and takes some minutes.
"""

from __future__ import annotations

import gzip
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

import django
from django.core.management import call_command

from tests.bench import Row
from tests.bench.archive import database
from tests.bench.serving import web_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SIZES = (5, 100, 300)
VISITS = 5
GRID = "/?order=site"
"""The grid of sites; `/` alone is between the regions, where there are many sites."""
REACH_S = {100: "1 s", 300: "3 s"}
REACH_REFRESH = {300: "50 kB"}
USABLE = """async () => {
  const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const started = performance.now();
  while (document.querySelector('#matrix td a, #drawn[data-cells]') === null) {
    if (performance.now() - started > 60000) throw new Error('no cell');
    await painted();
  }
  await painted();
  return performance.now();
}"""
"""Milliseconds from the click (the start of the navigation) until cells are there and a frame with them is painted."""

MESH = (
    """
    INSERT INTO site (id, name, title, latitude_deg, longitude_deg, country, region, has_agent)
    SELECT n, 'site-' || lpad(n::text, 3, '0'), 'Site ' || n, n %% 80, n %% 180, 'CH', 'Region ' || n %% 8, TRUE
    FROM generate_series(1, %(sites)s) AS n
    """,
    """
    INSERT INTO host (id, site_id, name, address, family, for_ping, for_throughput)
    SELECT id, id, name, '10.0.' || id / 250 || '.' || id %% 250, 4, TRUE, TRUE FROM site
    """,
    """
    INSERT INTO path (id, source_id, destination_id, family)
    SELECT (source.id - 1) * %(sites)s + destination.id, source.id, destination.id, 4
    FROM host AS source, host AS destination WHERE source.id <> destination.id
    """,
    """
    INSERT INTO burst (
        path_id, measured_at, packet_bytes, outcome, sent, received, duplicates, reordered, during_test, rtts_ms
    )
    SELECT
        id, now() - make_interval(mins => minutes, secs => id %% 50), 100, 'measured', 20,
        20 - lost, 0, 0, FALSE,
        ARRAY(
            SELECT CASE WHEN n > lost THEN (rtt_ms * (1 + 0.02 * random()))::real END
            FROM generate_series(1, 20) AS n WHERE minutes > 0
        )
    FROM (
        SELECT
            id, minutes, 5 + (source_id * 7919 + destination_id * 104729) %% 300 AS rtt_ms,
            CASE
                WHEN spread < 2 THEN 20 WHEN destination_id = %(sites)s / 2 THEN 2 WHEN spread < 30 THEN 1 + id %% 4
                ELSE 0
            END AS lost
        FROM (SELECT *, id * 48271::bigint %% 2147483647 %% 1000 AS spread FROM path) AS path,
            unnest(ARRAY[10, 40, 70]) AS minutes
    ) AS path
    """,
)


def run() -> list[Row]:
    """The rows of all sizes, each on a mesh that replaces the one before."""
    with empty_database() as name:
        rows = [Row("database", name)]
        for sites in SIZES:
            plant(sites)
            rows += measure(sites)
    return rows


@contextmanager
def empty_database() -> Iterator[str]:
    """The tables without rows, and read access for browsers on this machine; yields the database's name."""
    with database() as name:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
        os.environ |= {"SOUNDINGS_LOCAL_READ": "1", "SOUNDINGS_ALLOW_PLAIN_HTTP": "1"}
        django.setup()
        call_command("migrate", verbosity=0)
        yield name


def plant(sites: int) -> None:
    """A full mesh of so many sites with three bursts on each path."""
    from django.db import connection
    from django.utils import timezone

    from monitor.mesh.models import Group, Measurement, Mesh, Path, Site, Test

    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE site, mesh, test, site_group, burst, burst_hour, incident, last_run CASCADE")
        for statement in MESH:
            cursor.execute(statement, {"sites": sites})
    now = timezone.now()
    Mesh.objects.create(name=f"{sites} sites", applied_at=now)
    test = Test.objects.create(
        name="ping", kind="ping", every_s=1800, parameters={"count": 20, "packet_bytes": [100], "spacing_s": 1.0}
    )
    path_ids = Path.objects.values_list("id", flat=True)
    Measurement.objects.bulk_create(Measurement(path_id=key, test=test, started_at=now) for key in path_ids)
    Group.objects.create(name="all", shape="mesh").sites.set(Site.objects.all())
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")


def measure(sites: int) -> list[Row]:
    """The rows of the mesh that is planted."""
    from tests.e2e.visits import browsing

    with web_server(wake) as port, browsing() as browser:
        address = f"http://127.0.0.1:{port}{GRID}"
        took_s, answer, compressed_bytes = _asked(port, GRID)
        usable_s = [_visited(browser, address) for _ in range(VISITS)]
        parts_bytes, refresh_bytes = _refreshed(browser, address)
    median_s = statistics.median(usable_s)
    return [
        Row(
            f"{sites} sites: click to usable",
            f"{median_s:.2f} s, longest {max(usable_s):.2f} s",
            REACH_S.get(sites, ""),
        ),
        Row(f"{sites} sites: the server's answer", f"{1000 * took_s:.0f} ms"),
        Row(f"{sites} sites: page", f"{len(answer) / 1000:,.0f} kB, {compressed_bytes / 1000:,.0f} kB compressed"),
        Row(
            f"{sites} sites: a refresh at rest",
            f"{refresh_bytes / 1000:,.1f} kB of cells, {parts_bytes / 1000:,.1f} kB of other parts, compressed",
            REACH_REFRESH.get(sites, ""),
        ),
    ]


def wake(port: int) -> None:
    """Ask each worker for a page that loads no grid."""
    for _ in range(4):
        _asked(port, "/calculator/")


def _asked(port: int, address: str) -> tuple[float, bytes, int]:
    """Seconds until the whole answer (the median of three), the answer, and its bytes as sent."""
    took_s = []
    for _ in range(3):
        begun = time.perf_counter()
        connection = HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request("GET", address, headers={"Accept-Encoding": "gzip"})
        response = connection.getresponse()
        body = response.read()
        took_s.append(time.perf_counter() - begun)
        if response.status != 200:
            raise SystemExit(f"{address}: the centre answered {response.status}: {body[:300]!r}")
    plain = gzip.decompress(body) if response.getheader("Content-Encoding") == "gzip" else body
    return statistics.median(took_s), plain, len(body)


def _visited(browser: Browser, address: str) -> float:
    """Seconds from the click until the grid can be used."""
    context = browser.new_context(viewport={"width": 1920, "height": 1080})
    page = context.new_page()
    page.goto(address, wait_until="commit", timeout=120_000)
    usable_s = float(page.evaluate(USABLE)) / 1000
    context.close()
    return usable_s


def _refreshed(browser: Browser, address: str) -> tuple[int, int]:
    """Compressed bytes of a refresh: of the page's parts, and of the cells."""
    context = browser.new_context(viewport={"width": 1920, "height": 1080})
    page = context.new_page()
    page.goto(address, timeout=120_000)
    page.evaluate(USABLE)
    _refresh(page)
    requests: list[Any] = []
    page.on("requestfinished", lambda request: requests.append(request))
    _refresh(page)
    page.wait_for_timeout(500)
    sizes = {request.url: request.sizes()["responseBodySize"] for request in requests}
    context.close()
    cells = sum(size for url, size in sizes.items() if "/grid/" in url)
    return sum(sizes.values()) - cells, cells


def _refresh(page: Page) -> None:
    page.evaluate(
        "() => new Promise((done) => { document.addEventListener('soundings:refreshed', done, { once: true });"
        " document.dispatchEvent(new Event('visibilitychange')); })"
    )

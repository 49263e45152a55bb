"""Query times of the archive on a large mesh: 10,000 paths with 30 days of hours, on PostgreSQL and TimescaleDB.

Builds the hours in SQL and the days and months by merging, with progress, and runs each query ten times with its data
in memory, the page of the grid among them; raw bursts are a day of a tenth of the paths. As in the web server, objects
from before the first query are excluded from garbage collection.

Takes about ten minutes and 4 GB of disk for each database, so it runs only when named: `make bench-archive`.
TimescaleDB is that of `tests.timescale`, left out without root. As a module of its own it takes `--paths`, `--days` and
`--only`, and SOUNDINGS_DATABASE_URL, an empty database, in place of the bundled server.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import django
import numpy as np
from django.core.management import call_command
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.bench import Row
from tests.bench.archive import database
from tests.timescale import serving

UNTIL = datetime(2026, 11, 1, tzinfo=UTC)
SITES = 100
REGIONS = 8
PROFILES = 500
MERGED_AT_ONCE = 5000
TIMES = 10
REACH = {"grid": "300 ms", "path, a day of raw": "50 ms", "path, a year": "150 ms", "table by region": "500 ms"}


def run() -> list[Row]:
    """Both databases, each in a separate process, since Django keeps to a single database."""
    rows: list[Row] = []
    for name in ("bundled", "timescale"):
        if name == "timescale" and (os.geteuid() != 0 or os.environ.get("SOUNDINGS_DATABASE_URL")):
            rows.append(Row("TimescaleDB", "left out: needs root, and no SOUNDINGS_DATABASE_URL"))
            continue
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.archive_queries", "--only", name, "--tab-separated"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        rows += [Row(*line.split("\t")) for line in done.stdout.splitlines()]
    return rows


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.archive_queries", description=__doc__)
    parser.add_argument("--paths", type=int, default=SITES * SITES, help=f"how many, at most {SITES * SITES}")
    parser.add_argument("--days", type=int, default=30, help="how many days of hours")
    parser.add_argument("--only", choices=("bundled", "timescale"), default="bundled", help="which database")
    parser.add_argument("--tab-separated", action="store_true", help="for a program to read")
    options = parser.parse_args(arguments)
    with serving() if options.only == "timescale" else database() as where:
        if options.only == "timescale":
            os.environ["SOUNDINGS_DATABASE_URL"] = where
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
        os.environ["SOUNDINGS_LOCAL_READ"] = "1"
        django.setup()
        call_command("migrate", verbosity=0)
        rows = [Row("database", "TimescaleDB" if options.only == "timescale" else where)]
        rows += _built(options.paths, options.days)
        gc.freeze()
        rows += [_timed_query(*question) for question in _queries(options.days)]
    for row in rows:
        cells = (row.measure, row.value, row.reach)
        print("\t".join(cells) if options.tab_separated else f"{cells[0]:44}{cells[1]:44}{cells[2]}")
    return 0


@contextmanager
def _progress(description: str, total: int) -> Iterator[Callable[[int], None]]:
    columns = (TextColumn(description), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=_stderr()) as progress:
        task = progress.add_task(description, total=total)
        yield lambda done: progress.advance(task, done)


def _stderr() -> Any:
    from rich.console import Console

    return Console(stderr=True)


def _execute(text: str, **parameters: Any) -> list[Any]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(text, parameters)
        return cursor.fetchall() if cursor.description else []


def _built(paths: int, days: int) -> list[Row]:
    """Create all tables; their rows and the insert rates."""
    from django.utils import timezone

    from monitor.archive.upkeep.growth import table_sizes

    _make_mesh(paths)
    _make_profiles()
    took_s = {"hours": _timed(lambda: _make_hours(paths, days)), "days": _timed(lambda: _merge(paths, days))}
    took_s["raw"] = _timed(lambda: _make_raw(paths))
    for table in ("burst", "burst_hour", "burst_day", "burst_month", "path", "host", "site"):
        _execute(f"VACUUM (ANALYZE) {table}")
    counts = {table: _execute(f"SELECT count(*) FROM {table}")[0][0] for table in ("burst_hour", "burst_day", "burst")}
    [hour_bytes] = [size.total_bytes for size in table_sizes(timezone.now()) if size.name == "burst_hour"]
    merged = counts["burst_day"] / took_s["days"]
    return [
        Row("rows by hour", f"{counts['burst_hour']:,}, {counts['burst_hour'] / took_s['hours']:,.0f}/s by SQL"),
        Row("rows by day", f"{counts['burst_day']:,}, merged {merged:,.0f}/s ({24 * merged:,.0f} hours/s)"),
        Row("raw bursts", f"{counts['burst']:,}"),
        Row("an hour with its indexes", f"{hour_bytes / counts['burst_hour']:.0f} bytes"),
    ]


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _make_mesh(paths: int) -> None:
    """A hundred sites in eight regions, each with a host, and paths between all of them."""
    _execute(
        """
        INSERT INTO site (id, name, title, latitude_deg, longitude_deg, country, region, has_agent)
        SELECT n, 'site-' || n, 'Site ' || n, n %% 80, n, chr(65 + n %% 20) || 'X', 'Region ' || n %% %(regions)s, TRUE
        FROM generate_series(1, %(sites)s) AS n
        """,
        sites=SITES,
        regions=REGIONS,
    )
    _execute(
        """
        INSERT INTO host (id, site_id, name, address, family, for_ping, for_throughput)
        SELECT 2 * id + side, id, 'host-' || id || '-' || side, '10.0.' || id || '.' || side, 4, TRUE, TRUE
        FROM site, generate_series(0, 1) AS side
        """
    )
    _execute(
        """
        INSERT INTO path (id, source_id, destination_id, family)
        SELECT n, 2 * (1 + (n - 1) / %(sites)s), 2 * (1 + (n - 1) %% %(sites)s) + 1, 4
        FROM generate_series(1, %(paths)s) AS n
        """,
        sites=SITES,
        paths=paths,
    )
    _plan_pings()


def _plan_pings() -> None:
    """Each path is pinged, all sites are a group, and a path, a site and the group are in maintenance, for the page."""
    from monitor.alerts.models import QuietPeriod
    from monitor.mesh.models import Group, KindName, Measurement, Path, Site, Test

    test = Test.objects.create(name="ping", kind=KindName.PING, every_s=1800)
    Measurement.objects.bulk_create(
        Measurement(path_id=path_id, test=test, started_at=UNTIL)
        for path_id in Path.objects.values_list("id", flat=True)
    )
    group = Group.objects.create(name="all", shape="mesh")
    group.sites.set(Site.objects.all())
    for scope in ({"path_id": 1}, {"site_id": 1}, {"group": group}):
        QuietPeriod.objects.create(
            kind=QuietPeriod.Kind.MAINTENANCE,
            starts_at=UNTIL - timedelta(hours=1),
            ends_at=UNTIL,
            made_by="bench",
            made_at=UNTIL,
            **scope,
        )


def _make_profiles() -> None:
    """RTTs of paths of 0.3 to 300 ms with a tail, and the sketches of an hour of two bursts of them."""
    from monitor.analysis.sketches import IPDV_MS, RTT_MS, Sketches

    random = np.random.default_rng(20261101)
    least_ms = 10 ** random.uniform(-0.5, 2.5, PROFILES)
    rtts_ms = least_ms[:, np.newaxis] * (1 + 0.02 * random.gamma(2, 1, (PROFILES, 20)))
    group = np.repeat(np.arange(PROFILES), 20)
    rtt = Sketches.of_values(group, rtts_ms.ravel(), PROFILES, RTT_MS).to_bytes()
    ipdv = Sketches.of_values(group[: 19 * PROFILES], np.diff(rtts_ms).ravel(), PROFILES, IPDV_MS).to_bytes()
    _execute("CREATE TEMPORARY TABLE profile (profile integer PRIMARY KEY, least_ms float8, rtt bytea, ipdv bytea)")
    _execute(
        "INSERT INTO profile SELECT * FROM unnest("
        "%(n)s::integer[], %(least)s::float8[], %(rtt)s::bytea[], %(ipdv)s::bytea[])",
        n=list(range(PROFILES)),
        least=least_ms.tolist(),
        rtt=rtt,
        ipdv=ipdv,
    )


HOURS = """
    INSERT INTO burst_hour (
        path_id, packet_bytes, hour, bursts, bursts_all_lost, bursts_none_lost, bursts_during_test, bursts_not_measured,
        bursts_planned, sent, received, duplicates, reordered, losses_followed, losses_paired, loss_max_ratio,
        rtt_min_ms, rtt_p25_ms, rtt_median_ms, rtt_p75_ms, rtt_p90_ms, rtt_p95_ms, rtt_max_ms, rtt_avg_ms, rtt_iqr_ms,
        ipdv_ms,
        received_avg_ratio, received_max_ratio, rate_avg_per_ms, rate_max_per_ms, estimate_bps, estimate_is_floor,
        rtt_sketch, ipdv_sketch
    )
    SELECT
        path_id, 100, hour, 2, 0, 2 - lost, 0, 0, 2, 20, 20 - lost, 0, 0, lost, 0, lost / 10.0, least_ms,
        least_ms * 1.02, least_ms * (1.03 + slower), least_ms * 1.05, least_ms * 1.07, least_ms * 1.08, least_ms * 1.15,
        least_ms * (1.04 + slower), least_ms * 0.03, least_ms * 0.03, 1 - lost / 20.0, 1, 1 / least_ms, 1.1 / least_ms,
        1e7 / least_ms, lost = 0, rtt, ipdv
    FROM generate_series(%(since)s::timestamptz, %(since)s::timestamptz + interval '23 hours', '1 hour') AS hour
    CROSS JOIN generate_series(1, %(paths)s) AS path_id
    INNER JOIN profile ON profile.profile = path_id %% %(profiles)s
    CROSS JOIN LATERAL (
        SELECT (random() < 0.03)::integer AS lost, random() * 0.02 AS slower WHERE path_id > 0 AND hour IS NOT NULL
    ) AS luck
    ORDER BY hour, path_id
"""


def _make_hours(paths: int, days: int) -> None:
    with _progress("hours, by days", days) as advance:
        for number in range(days):
            since = UNTIL - timedelta(days=days - number)
            _execute(HOURS, since=since, paths=paths, profiles=PROFILES)
            advance(1)
    _execute("ANALYZE burst_hour")


def _merge(paths: int, days: int) -> None:
    from monitor.archive.rollup.recompute import TIERS, merge

    _execute(
        """
        INSERT INTO dirty_summary (tier, path_id, starts_at, marked_at)
        SELECT 'day', path_id, day, day
        FROM generate_series(1, %(paths)s) AS path_id,
            generate_series(%(since)s::timestamptz, %(until)s, '1 day') AS day
        """,
        paths=paths,
        since=UNTIL - timedelta(days=days),
        until=UNTIL - timedelta(days=1),
    )
    now = UNTIL + timedelta(days=1)
    with _progress("days of paths", paths * days) as advance:
        while done := merge(TIERS[0], now, MERGED_AT_ONCE, timedelta(0)):
            advance(done)
    _execute("ANALYZE burst_day")
    while merge(TIERS[1], now, MERGED_AT_ONCE, timedelta(0)):
        continue


def _make_raw(paths: int) -> None:
    """The last day of a tenth of the paths, a burst of ten each minute."""
    _execute(
        """
        INSERT INTO burst (
            path_id, measured_at, packet_bytes, outcome, sent, received, duplicates, reordered, during_test, rtts_ms
        )
        SELECT path_id, at, 100, 'measured', 10, 10, 0, 0, FALSE, ARRAY(
            SELECT (least_ms * (1 + 0.05 * random()))::real
            FROM generate_series(1, 10)
            WHERE path_id > 0 AND at IS NOT NULL
        )
        FROM generate_series(%(since)s::timestamptz, %(since)s::timestamptz + interval '1439 min', '1 min') AS at
        CROSS JOIN generate_series(1, %(paths)s, 10) AS path_id
        INNER JOIN profile ON profile.profile = path_id %% %(profiles)s
        """,
        since=UNTIL - timedelta(days=1),
        paths=paths,
        profiles=PROFILES,
    )


def _queries(days: int) -> list[tuple[str, str, Callable[[], list[Any]]]]:
    """Each query by name, with its target and its function."""
    from django.test import Client

    from monitor.archive.queries import tables
    from monitor.archive.queries.metrics import Metric
    from monitor.archive.queries.operation import completeness
    from monitor.archive.queries.paths import measured_packet_sizes, path_series, path_summaries, raw_bursts
    from monitor.archive.queries.tables import Grouping, Tick

    since, day = UNTIL - timedelta(days=days), UNTIL - timedelta(days=1)
    now, fortnight = UNTIL - timedelta(minutes=25), UNTIL - timedelta(days=14)

    def grid(metric: Metric, begun: datetime) -> Callable[[], list[Any]]:
        return lambda: tables.grid(metric, begun, now, packet_bytes=100)

    def table(metric: Metric, tick: Tick) -> Callable[[], list[Any]]:
        return lambda: tables.table(Grouping.REGION, metric, tick, since if tick is Tick.DAY else day, UNTIL, 100)

    def path(begun: datetime) -> Callable[[], list[Any]]:
        return lambda: list(path_series(1, 100, begun, UNTIL).points)

    def page(address: str) -> Callable[[], list[Any]]:
        client = Client(headers={"host": "localhost"})

        def cells() -> list[Any]:
            with mock.patch("django.utils.timezone.now", return_value=now):
                answer = client.get(address)
            assert answer.status_code == 200, answer.content
            return answer.content.split(b"<td")[1:]

        return cells

    return [
        ("page of the grid of loss, a day", REACH["grid"], page("/")),
        ("page of the grid of loss, a week", REACH["grid"], page("/?period=week")),
        ("page of the grid of median RTT, a week", REACH["grid"], page("/?metric=rtt&period=week")),
        ("grid of loss, a day", REACH["grid"], grid(Metric.LOSS, now - timedelta(days=1))),
        ("grid of loss, 30 days", REACH["grid"], grid(Metric.LOSS, now - timedelta(days=30))),
        ("grid of median RTT, a day", REACH["grid"], grid(Metric.RTT_MEDIAN, now - timedelta(days=1))),
        ("grid of median RTT, 30 days", REACH["grid"], grid(Metric.RTT_MEDIAN, now - timedelta(days=30))),
        ("grid of MOS, 30 days", REACH["grid"], grid(Metric.MOS, now - timedelta(days=30))),
        (
            "all figures of all paths, 30 days",
            "",
            lambda: path_summaries(now - timedelta(days=30), now, packet_bytes=100),
        ),
        ("ten worst paths, 30 days", REACH["grid"], lambda: tables.worst(Metric.LOSS, now - timedelta(days=30), now)),
        ("path, a day of raw", REACH["path, a day of raw"], path(day)),
        ("path, 30 days", REACH["path, a year"], path(since)),
        ("path, a year", REACH["path, a year"], path(UNTIL - timedelta(days=365))),
        ("table by region, a month", REACH["table by region"], table(Metric.RTT_MEDIAN, Tick.MONTH)),
        ("table by region, a month of days", REACH["table by region"], table(Metric.RTT_MEDIAN, Tick.DAY)),
        ("raw bursts of a day", "", lambda: raw_bursts(1, day, UNTIL)),
        ("packet sizes", "", measured_packet_sizes),
        ("completeness, 14 days", "", lambda: completeness.days_of_sites(fortnight.date(), UNTIL.date(), now)),
    ]


def _timed_query(name: str, reach: str, ask: Callable[[], list[Any]]) -> Row:
    """The 95th percentile of ten runs, after a warm-up run."""
    answer = ask()
    took_ms = [_timed(ask) * 1000 for _ in range(TIMES)]
    p95_ms, median_ms = statistics.quantiles(took_ms, n=20, method="inclusive")[-1], statistics.median(took_ms)
    return Row(name, f"p95 {p95_ms:.0f} ms, median {median_ms:.0f} ms, {len(answer):,} rows", reach)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

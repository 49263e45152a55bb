"""Time of an evaluation of all alert rules on a large mesh, after a cycle of 10,000 paths has arrived.

A database of its own, or an empty database in SOUNDINGS_DATABASE_URL, is filled in SQL with an hour of raw bursts, two
sizes a minute, five days of hours and four weeks of days. RTTs of the last minute are new to the evaluation, as they
are after every cycle; the baselines are queried once an hour and are shown separately. The figure is processor time, so
that it is valid on a busy machine too. Takes minutes and 2 GB, so it runs only when named.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import django
from django.core.management import call_command

from tests.bench import Row
from tests.bench.archive import database

NOW = datetime(2026, 11, 1, 12, 30, 30, tzinfo=UTC)
SITES = 101
ROUNDS = 5

FILL = (
    """
    INSERT INTO burst (path_id, packet_bytes, measured_at, outcome, sent, received, duplicates, reordered, ttl,
        during_test, rtts_ms)
    SELECT
        path.id, size, at + make_interval(secs => path.id %% 50 / 10.0), 'measured', 10, 10, 0, 0, 57, false,
        ARRAY(SELECT (20 + path.id %% 200 + random())::real FROM generate_series(1, 10) WHERE at IS NOT NULL)
    FROM
        generate_series(%(now)s::timestamptz - interval '64 min', %(now)s + interval '5 min', '1 min') AS at,
        path, unnest(ARRAY[100, 1000]) AS size
    """,
    """
    INSERT INTO burst_hour (path_id, packet_bytes, hour, bursts, bursts_all_lost, bursts_none_lost, bursts_during_test,
        bursts_not_measured, sent, received, duplicates, reordered, rtt_median_ms)
    SELECT path.id, size, at, 60, 0, 59, 0, 0, 600, 599, 0, 0, 20 + random()
    FROM generate_series(%(hour)s::timestamptz - interval '120 h', %(hour)s::timestamptz, '1 hour') AS at,
        path, unnest(ARRAY[100, 1000]) AS size
    """,
    """
    INSERT INTO burst_day (path_id, packet_bytes, day, bursts, bursts_all_lost, bursts_none_lost, bursts_during_test,
        bursts_not_measured, sent, received, duplicates, reordered, rtt_median_ms)
    SELECT path.id, size, at, 1440, 0, 1416, 0, 0, 14400, 14376, 0, 0, 20 + random()
    FROM generate_series(date_trunc('day', %(now)s::timestamptz, 'UTC') - interval '40 days', %(now)s, '1 day') AS at,
        path, unnest(ARRAY[100, 1000]) AS size
    """,
)


def run() -> list[Row]:
    with database() as name:
        django.setup()
        call_command("migrate", verbosity=0)
        paths = _fill()
        return [Row("database", name), *_timed(paths)]


def _fill() -> int:
    from django.db import connection

    from monitor.archive.periods import start_of
    from monitor.mesh.models import Host, KindName, Measurement, Mesh, Path, Site, Test

    Mesh.objects.create(name="Large", alerts={}, applied_at=NOW)
    place = {"latitude_deg": 0.0, "longitude_deg": 0.0, "country": "CH", "region": "", "has_agent": True}
    sites = Site.objects.bulk_create(Site(name=f"s{n}", title=f"s{n}", **place) for n in range(SITES))
    hosts = Host.objects.bulk_create(
        Host(site=site, name=site.name, address=f"10.0.0.{n}", family=4) for n, site in enumerate(sites)
    )
    paths = Path.objects.bulk_create(Path(source=a, destination=b, family=4) for a in hosts for b in hosts if a != b)
    test = Test.objects.create(name="pinger", kind=KindName.PING, every_s=60, parameters={"packet_bytes": [100, 1000]})
    began = NOW - timedelta(days=60)
    Measurement.objects.bulk_create(Measurement(path=path, test=test, started_at=began) for path in paths)
    with connection.cursor() as cursor:
        for text in FILL:
            cursor.execute(text, {"now": NOW, "hour": start_of("hour", NOW)})
        cursor.execute("ANALYZE")
    return len(paths)


def _timed(paths: int) -> list[Row]:
    from monitor.alerts.detect.past.baselines import baselines_at
    from monitor.alerts.evaluate import evaluate
    from monitor.alerts.models import Incident
    from monitor.present.follow import Follower

    began = time.perf_counter()
    baselines = baselines_at(NOW)
    baselines_s = time.perf_counter() - began
    follower = Follower()
    began = time.perf_counter()
    evaluate(NOW, baselines, follower=follower)
    first_s = time.perf_counter() - began
    times = []
    for number in range(1, ROUNDS + 1):
        now = NOW + timedelta(minutes=number)
        _deliver(number, now)
        began, own_s, server_s = time.perf_counter(), time.process_time(), _server_s()
        evaluate(now, baselines, follower=follower)
        own_s, server_s = time.process_time() - own_s, _server_s() - server_s
        times.append((own_s + server_s, own_s, server_s, time.perf_counter() - began))
    both_s, own_s, server_s, elapsed_s = min(times)
    times_text = (
        f"{both_s:.2f} s of a core: {own_s:.2f} s ours, {server_s:.2f} s the database's; {elapsed_s:.2f} s elapsed"
    )
    return [
        Row(f"an evaluation, {paths:,} paths with new results", times_text, "< 5 s"),
        Row("baselines, once an hour", f"{baselines_s:.2f} s"),
        Row("the first evaluation of a worker, which follows an hour", f"{first_s:.2f} s"),
        Row("incidents opened", str(Incident.objects.count())),
    ]


def _server_s() -> float:
    """The processor time of the server's process for this connection, which shares no work with others here."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SET max_parallel_workers_per_gather = 0")
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _deliver(number: int, now: datetime) -> None:
    """A batch of each site with the bursts of the last minute."""
    from monitor.archive.models import ReceivedBatch
    from monitor.mesh.models import Site

    since = now - timedelta(minutes=1)
    ReceivedBatch.objects.bulk_create(
        ReceivedBatch(
            site=site,
            spool="bench",
            number=number,
            received_at=now,
            sent_at=now,
            agent_version="bench",
            accepted=200,
            refused=0,
            queued=0,
            dropped=0,
            measured_from=since,
        )
        for site in Site.objects.all()
    )

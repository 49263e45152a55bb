"""Processor time of evaluations in a storm: 3% of the paths of a full mesh of 300 sites begin to lose packets at once.

A database of its own, or an empty one in SOUNDINGS_DATABASE_URL, is filled in SQL with half an hour of a burst a minute
of each path; those in the storm lose 30% in the last minutes. The rules are evaluated as the worker does: before the
storm, when it is found, when its incidents open, and while they last. Then evidence is gathered and notifications are
sent to the channel `log`. Takes minutes and 2 GB, so it runs only when named; `--profile FILE` writes the
profile of the evaluation that finds the storm.
"""

from __future__ import annotations

import argparse
import cProfile
import logging
import resource
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from tests.bench import Row
from tests.bench.grid_page import MESH, empty_database
from tests.bench.processes import cpu_s

NOW = datetime(2026, 11, 1, 12, 40, 30, tzinfo=UTC)
SITES, LOSSY = 300, 0.03
STORM, BEFORE = "4 min", timedelta(minutes=5)
LATER = (("the storm is found", 0), ("its incidents open", 25), ("they last", 40), ("a minute later", 100))
"""Evaluations, and seconds after `NOW`."""
MOST_RUNS = 500
FILL = (
    "CREATE TABLE storm AS SELECT id AS path_id FROM path"
    " WHERE (id * 48271::bigint) %% 2147483647 %% 10000 < 10000 * %(lossy)s",
    """
    INSERT INTO burst (
        path_id, packet_bytes, measured_at, outcome, sent, received, duplicates, reordered, ttl, during_test, rtts_ms
    )
    SELECT
        id, 100, at, 'measured', 10, 10 - cardinality(array_positions(rtts_ms, NULL)), 0, 0, 57, FALSE, rtts_ms
    FROM (
        SELECT
            path.id, at,
            ARRAY(
                SELECT
                    CASE
                        WHEN random() >= CASE
                            WHEN storm.path_id IS NOT NULL AND at >= %(now)s::timestamptz - interval '4 min' THEN 0.3
                            ELSE 0.0005
                        END
                        THEN (20 + path.id %% 200 + random())::real
                    END
                FROM generate_series(1, 10) WHERE at IS NOT NULL
            ) AS rtts_ms
        FROM path
        LEFT JOIN storm ON storm.path_id = path.id,
            LATERAL (
                SELECT minute + make_interval(secs => path.id %% 50) AS at
                FROM generate_series(%(now)s - interval '31 min', %(now)s + interval '1 min', '1 min') AS minute
            ) AS cycle
    ) AS measured
    """,
)


def run(sites: int = SITES, lossy: float = LOSSY, profile: str | None = None) -> list[Row]:
    with empty_database() as name:
        paths = plant(sites, lossy)
        return [
            Row("database", name),
            Row("paths, of them in the storm", "{:,}, {:,}".format(*paths)),
            *_timed(profile),
        ]


def rows_of(arguments: Sequence[str]) -> list[Row]:
    """The figures of a run with the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench storm", description=__doc__)
    parser.add_argument("--sites", type=int, default=SITES)
    parser.add_argument("--lossy", type=float, default=LOSSY, help="share of the paths")
    parser.add_argument("--profile", metavar="FILE")
    return run(**vars(parser.parse_args(arguments)))


def plant(sites: int, lossy: float) -> tuple[int, int]:
    """Fill the empty database; returns the number of paths, and of those in the storm."""
    from django.db import connection

    from monitor.mesh.models import Measurement, MeasurementPeriod, Mesh, Path, Test

    began = NOW - timedelta(days=1)
    with connection.cursor() as cursor:
        for statement in MESH[:3]:
            cursor.execute(statement, {"sites": sites})
        Mesh.objects.create(name=f"{sites} sites", applied_at=began)
        parameters = {"count": 10, "packet_bytes": [100], "spacing_s": 1.0}
        test = Test.objects.create(name="ping", kind="ping", every_s=60, parameters=parameters)
        path_ids = list(Path.objects.values_list("id", flat=True))
        made = Measurement.objects.bulk_create(
            Measurement(path_id=key, test=test, started_at=began) for key in path_ids
        )
        MeasurementPeriod.objects.bulk_create(
            MeasurementPeriod(measurement=of, every_s=60, packet_bytes=[100], started_at=began) for of in made
        )
        cursor.execute("SELECT setseed(0.5)")
        for statement in FILL:
            cursor.execute(statement, {"now": NOW, "lossy": lossy})
        cursor.execute("VACUUM (ANALYZE)")
        cursor.execute("SELECT count(*) FROM storm")
        (of_storm,) = cursor.fetchone()
    return len(path_ids), of_storm


def _timed(profile: str | None) -> list[Row]:
    from monitor.alerts.detect.sources import SourceOfWorker
    from monitor.alerts.evaluate import evaluate, stored_baselines
    from monitor.alerts.evidence.gather import gather_due
    from monitor.alerts.models import Incident, IncidentPath, Notification
    from monitor.alerts.scope import scope_now

    scope, source = scope_now(), SourceOfWorker()
    baselines = stored_baselines(NOW, scope.every)
    rows = [_row("before the storm", lambda: evaluate(NOW - BEFORE, baselines, scope, source))]
    for what, seconds in LATER:
        at = NOW + timedelta(seconds=seconds)
        rows.append(_row(what, lambda at=at: evaluate(at, baselines, scope, source), None if seconds else profile))
        rows.append(Row("  incidents, findings", f"{Incident.objects.count():,}, {IncidentPath.objects.count():,}"))
    last = NOW + timedelta(seconds=LATER[-1][1])
    rows.append(_row("evidence of the first incidents", lambda: gather_due(last)))
    rows.append(Row("notifications queued", f"{Notification.objects.count():,}"))
    sent: list[int] = []
    rows.append(_row("sending them", lambda: sent.extend(_sent(last))))
    most_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return [*rows, Row("messages, by run", f"{sum(sent):,}: {sent[:9]}"), Row("most memory", f"{most_mb:,.0f} MB")]


def _sent(now: datetime) -> list[int]:
    """How many messages each run sent, until nothing is left."""
    from monitor.alerts.notify.deliver import deliver

    logging.getLogger("monitor.alerts").setLevel(logging.CRITICAL)
    sent: list[int] = []
    while len(sent) < MOST_RUNS and (of_run := deliver(now + timedelta(seconds=10 * len(sent)))):
        sent.append(of_run)
    return sent


def _row(what: str, work: Callable[[], object], profile: str | None = None) -> Row:
    """The processor time of this process and of PostgreSQL's for it, which has no parallel workers."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SET max_parallel_workers_per_gather = 0")
        cursor.execute("SELECT pg_backend_pid()")
        (server,) = cursor.fetchone()
    began, own_s, server_s = time.perf_counter(), time.process_time(), cpu_s([server])
    profiler = cProfile.Profile()
    if profile is not None:
        profiler.runcall(work)
        profiler.dump_stats(profile)
    else:
        work()
    own_s, server_s, elapsed_s = time.process_time() - own_s, cpu_s([server]) - server_s, time.perf_counter() - began
    row = Row(what, f"{own_s:.1f} + {server_s:.1f} s in {elapsed_s:.1f} s")
    print(row.measure, row.value, flush=True)
    return row

"""The weekly report of 1,000 paths, with PDF and mail: time, memory and size.

Nine weeks of days and two of hours are created in SQL; throughput tests four times a day. The report is rendered in a
separate process, so that its memory is measured alone.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from datetime import timedelta
from zoneinfo import ZoneInfo

import django

from tests.bench import Row
from tests.bench.archive import database

PATHS = 1000
SITES = 33
DAYS = 63
BY_HOURS = 14
REACH = {"seconds": "under 10", "memory": "under 300 MB", "PDF": "under 2 MB", "mail": "under 200 KB"}


def run() -> list[Row]:
    """Build the mesh, then render its report in a fresh process."""
    with database():
        for part in ("build", "report"):
            done = subprocess.run(
                [sys.executable, "-m", "tests.bench.reports", part],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
        return [Row(*line.split("\t")) for line in done.stdout.splitlines()]


def build() -> None:
    """1,000 paths of 32 sites with days, hours and throughput tests, from a fixed seed."""
    from django.core.management import call_command
    from django.db import connection

    from monitor.mesh.models import MeasurementPeriod, Path
    from tests.db.alert_rows import make_mesh

    call_command("migrate", verbosity=0)
    since = _week().until - timedelta(days=DAYS)
    make_mesh([f"laboratory-{number}" for number in range(SITES)], since)
    extra = list(Path.objects.order_by("-pk").values_list("pk", flat=True))[PATHS:]
    MeasurementPeriod.objects.filter(measurement__path__in=extra).delete()
    commands = {
        "since": since,
        "until": _week().until,
        "hours_since": _week().until - timedelta(days=BY_HOURS),
        "left_out": extra,
    }
    with connection.cursor() as cursor:
        cursor.execute("SELECT setseed(0.47)")
        for statement in _DATA:
            cursor.execute(statement, commands)
        cursor.execute("ANALYZE")


_SUMMARY = """
    INSERT INTO burst_{tier} (
        path_id, packet_bytes, {tier}, bursts, bursts_all_lost, bursts_none_lost, bursts_during_test,
        bursts_not_measured, bursts_planned, sent, received, duplicates, reordered, rtt_min_ms, rtt_p25_ms,
        rtt_median_ms, rtt_p75_ms, rtt_p95_ms, rtt_max_ms, rtt_avg_ms, ipdv_ms
    )
    SELECT
        path.id, size, at, {bursts}, 0, {bursts} - lost, 0, 0, {bursts}, 10 * {bursts}, 10 * {bursts} - lost, 0, 0,
        rtt - 1, rtt, rtt, rtt, rtt + 1, rtt + 5, rtt, 0.2
    FROM path
    CROSS JOIN unnest(ARRAY[100, 1000]) AS size
    CROSS JOIN generate_series(
        %({since})s::timestamptz, %(until)s::timestamptz - interval '1 {tier}', interval '1 {tier}'
    ) AS at
    CROSS JOIN LATERAL (
        SELECT (random() * random() * {bursts} / 30)::integer AS lost, 20 + path.id %% 200 + random() AS rtt
        WHERE path.id > 0 AND at IS NOT NULL
    ) AS made
    WHERE path.id <> ALL(%(left_out)s)
"""
_DATA = (
    _SUMMARY.format(tier="day", bursts=1440, since="since"),
    _SUMMARY.format(tier="hour", bursts=60, since="hours_since"),
    """
    INSERT INTO throughput_test (
        path_id, measured_at, test, outcome, streams, throughput_bps, verdict, sentence
    )
    SELECT path.id, at, 'tcp', 'measured', 1, 9e7 * (0.9 + random() / 5), 'window-limited', 'window-limited'
    FROM path
    CROSS JOIN generate_series(%(hours_since)s::timestamptz, %(until)s::timestamptz, interval '6 hours') AS at
    WHERE path.id <> ALL(%(left_out)s)
    """,
    """
    INSERT INTO throughput_day (path_id, day, tests, tests_measured, slots_planned, throughput_median_bps)
    SELECT path.id, at, 4, 4, 4, 9e7 * (0.9 + random() / 5)
    FROM path
    CROSS JOIN generate_series(
        %(since)s::timestamptz, %(until)s::timestamptz - interval '1 day', interval '1 day'
    ) AS at
    WHERE path.id <> ALL(%(left_out)s)
    """,
)


def report() -> None:
    """Print time, memory and sizes."""
    from monitor.reports.contents.compose import report_of
    from monitor.reports.contents.report import ReportScope
    from monitor.reports.formats import mail, page, pdf
    from monitor.reports.numbers import Numbers

    numbers = Numbers()
    began = time.perf_counter()
    weekly = report_of(ReportScope(), _week(), _week().until, numbers)
    composed = time.perf_counter()
    html = page.render(weekly, numbers)
    paged = time.perf_counter()
    pdf_bytes = pdf.render(weekly, numbers)
    printed = time.perf_counter()
    mailed = mail.html(weekly, numbers, "https://localhost/unsubscribe/token/")
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    paths = f"{len(weekly.paths):,} paths"
    for measure, value, reach in (
        (f"figures of {paths}", f"{composed - began:.2f} s", ""),
        ("page", f"{paged - composed:.2f} s, {len(html) / 1e6:.2f} MB", ""),
        ("PDF", f"{printed - paged:.2f} s, {len(pdf_bytes) / 1e6:.2f} MB", REACH["PDF"]),
        ("all three", f"{printed - began:.2f} s", REACH["seconds"]),
        ("processor time", f"{time.process_time():.2f} s", ""),
        ("mail", f"{len(mailed.encode()) / 1e3:.0f} KB", REACH["mail"]),
        ("resident memory", f"{memory_mb:.0f} MB", REACH["memory"]),
    ):
        print(measure, value, reach, sep="\t")


def _week():  # type: ignore[no-untyped-def]
    from monitor.reports.periods import Period, Week

    return Period.of_week(Week(2026, 47), ZoneInfo("UTC"))


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
    django.setup()
    {"build": build, "report": report}[sys.argv[1]]()

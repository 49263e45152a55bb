"""For Grafana and the pages: the coverage of sites in half the time, and planned throughput tests from the plan.

Coverage adds up the summaries of a site before it computes the beginning of their period, and joins each summary once.
A throughput test is planned by its slot, so that periods without any delivery count as well; the slots of older
periods, which are deleted, by the summaries.
"""

from importlib import import_module

from django.db import migrations

BEFORE = import_module("monitor.archive.migrations.0005_coverage_and_bursts")

VIEWS = {
    # Slots in which tests of a kind that needs them were to begin; those before kept_since are deleted.
    "slot": """
        SELECT measurement.path_id, test.name AS test, test.kind, slot.starts_at
        FROM slot
        INNER JOIN measurement ON measurement.id = slot.measurement_id
        INNER JOIN test ON test.id = measurement.test_id
    """,
    "kept_since": "SELECT key, since FROM kept_since",
}

SITE_COVERAGE = "site_coverage(tier text, since timestamptz, until timestamptz, moment timestamptz)"
THROUGHPUT = "throughput_in_whole_hours(tier text, since timestamptz, until timestamptz, moment timestamptz)"

FUNCTIONS = {
    # Rows to add up for each site that paths begin at and each period of the tier, all packet sizes together. Paths
    # that are measured alike are counted together. OFFSET 0 joins the site to each path, not to each summary.
    SITE_COVERAGE: f"""
        RETURNS TABLE (site text, at timestamptz, {BEFORE.COVERED}) LANGUAGE sql STABLE PARALLEL SAFE AS $$
            SELECT
                plan.source::text, step.at AT TIME ZONE 'UTC', sum(plan.sizes * reporting.cycles(
                    plan.every_s,
                    greatest(plan.started_at, step.at AT TIME ZONE 'UTC'),
                    least(
                        plan.ended_at, (step.at + ('1 ' || $1)::interval) AT TIME ZONE 'UTC',
                        reporting.start_of('hour', moment)
                    )
                )), 0::double precision, 0::double precision, 0::double precision
            FROM (
                SELECT
                    path.source, plan.every_s, plan.started_at, plan.ended_at,
                    sum(cardinality(plan.packet_bytes)) AS sizes
                FROM reporting.plan
                INNER JOIN reporting.path_source AS path ON path.path_id = plan.path_id
                WHERE cardinality(plan.packet_bytes) > 0
                GROUP BY path.source, plan.every_s, plan.started_at, plan.ended_at
            ) AS plan
            INNER JOIN generate_series(
                date_trunc($1, since AT TIME ZONE 'UTC'), least(until, moment) AT TIME ZONE 'UTC',
                ('1 ' || $1)::interval
            ) AS step (at)
                ON step.at < until AT TIME ZONE 'UTC'
                AND (plan.ended_at IS NULL OR plan.ended_at > step.at AT TIME ZONE 'UTC')
            GROUP BY plan.source, step.at
            UNION ALL
            SELECT
                whole.source::text, reporting.start_of($1, whole.at), 0::double precision, sum(whole.bursts_measured),
                sum(whole.bursts_during_test), sum(whole.bursts_not_measured)
            FROM (
                SELECT
                    path.source, ping.at, sum(ping.bursts_counted) AS bursts_measured,
                    sum(ping.bursts - ping.bursts_counted + ping.bursts_during_test) AS bursts_during_test,
                    sum(ping.bursts_not_measured)::double precision AS bursts_not_measured
                FROM reporting.ping
                INNER JOIN (SELECT path_id, source FROM reporting.path_source OFFSET 0) AS path
                    ON path.path_id = ping.path_id
                WHERE {BEFORE._in_whole_hours("ping")}
                GROUP BY path.source, ping.at
            ) AS whole
            GROUP BY whole.source, reporting.start_of($1, whole.at)
        $$
    """,
    # Rows to add up for each path and period: tests in whole hours, as bursts_in_whole_hours, and slots that begin in
    # whole hours, also where nothing was delivered.
    THROUGHPUT: f"""
        RETURNS TABLE (path_id integer, at timestamptz, tests integer, slots_planned integer)
        LANGUAGE sql STABLE PARALLEL SAFE AS $$
            SELECT
                throughput.path_id, reporting.start_of($1, throughput.at), throughput.tests,
                CASE WHEN throughput.at < coalesce(
                    (SELECT kept.since FROM reporting.kept_since AS kept WHERE kept.key = 'slots'), '-infinity'
                ) THEN throughput.slots_planned ELSE 0 END
            FROM reporting.throughput
            WHERE {BEFORE._in_whole_hours("throughput")}
            UNION ALL
            SELECT slot.path_id, reporting.start_of($1, slot.starts_at), 0, count(*)::integer
            FROM reporting.slot
            WHERE
                slot.kind = 'throughput' AND slot.test <> 'on-demand'
                AND slot.starts_at >= greatest(
                    reporting.start_of($1, since),
                    (SELECT kept.since FROM reporting.kept_since AS kept WHERE kept.key = 'slots')
                )
                AND slot.starts_at < least(reporting.end_of($1, until), reporting.start_of('hour', moment))
            GROUP BY slot.path_id, reporting.start_of($1, slot.starts_at)
        $$
    """,
}

CREATE = [
    *(f"CREATE VIEW reporting.{name} AS {text}" for name, text in VIEWS.items()),
    *(f"CREATE OR REPLACE FUNCTION reporting.{name} {text}" for name, text in FUNCTIONS.items()),
]
DROP = [
    *(f"CREATE OR REPLACE FUNCTION reporting.{name} {BEFORE.FUNCTIONS[name]}" for name in FUNCTIONS),
    *(f"DROP VIEW reporting.{name}" for name in VIEWS),
]


class Migration(migrations.Migration):
    dependencies = [
        ("archive", "0005_coverage_and_bursts"),
        ("mesh", "0001_mesh"),
    ]

    operations = [migrations.RunSQL(CREATE, DROP)]

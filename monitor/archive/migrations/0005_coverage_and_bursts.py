"""For Grafana and the pages, in the schema `reporting`: coverage up to the last whole hour, single bursts without their
round trips, the reverse path, and how many rollups are overdue.

A summary counts the plan of its whole hour or day, also while that runs. The functions of coverage count cycles that
began before the running hour, and the bursts of the same hours. Rows of planned and of measured bursts come apart;
whoever calls adds them up, so that a filter on a path or site reaches the tables.

STABLE and not IMMUTABLE where a function uses the session's time zone or tables; the planner inlines all of them.
"""

from importlib import import_module

from django.db import migrations

BEFORE = import_module("monitor.archive.migrations.0002_reporting")

COVERED = """bursts_planned double precision, bursts_measured double precision,
            bursts_during_test double precision, bursts_not_measured double precision"""


def _in_whole_hours(view: str) -> str:
    """Which rows of a view of summaries make up the periods of a tier, without the hour that runs at `moment`."""
    return f"""{view}.at >= reporting.start_of($1, since) AND {view}.at < reporting.end_of($1, until) AND (
                (
                    {view}.tier = 'month' AND $1 = 'month'
                    AND {view}.at < reporting.start_of('month', moment - interval '1 day')
                ) OR (
                    {view}.tier = 'day' AND $1 IN ('day', 'month')
                    AND {view}.at < reporting.start_of('day', moment - interval '1 hour')
                    AND ($1 = 'day' OR {view}.at >= reporting.start_of('month', moment - interval '1 day'))
                ) OR (
                    {view}.tier = 'hour' AND {view}.at < reporting.start_of('hour', moment)
                    AND ($1 = 'hour' OR {view}.at >= reporting.start_of('day', moment - interval '1 hour'))
                )
            )"""


FUNCTIONS = {
    # The number of multiples of every_s since the epoch in [since, until): cycles of a test that begin in it.
    "cycles(every_s integer, since timestamptz, until timestamptz)": """
        RETURNS double precision LANGUAGE sql STABLE PARALLEL SAFE AS $$
            SELECT greatest(
                0, ceil(date_part('epoch', until) / every_s) - ceil(date_part('epoch', since) / every_s)
            )
        $$
    """,
    # `at` where a period of the tier begins then, else the beginning of the next.
    "end_of(tier text, at timestamptz)": """
        RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
            SELECT CASE WHEN date_trunc(tier, at, 'UTC') = at THEN at
                ELSE (date_trunc(tier, at AT TIME ZONE 'UTC') + ('1 ' || tier)::interval) AT TIME ZONE 'UTC' END
        $$
    """,
    # Bursts in the summaries of a tier that begin in the period, without those of the hour that runs at `moment`. What
    # runs or ended lately (monitor.archive.periods.SETTLED_AFTER) comes from the smaller tiers, which are newer.
    "bursts_in_whole_hours(tier text, since timestamptz, until timestamptz, moment timestamptz)": f"""
        RETURNS TABLE (path_id integer, packet_bytes integer, at timestamptz, {COVERED})
        LANGUAGE sql STABLE PARALLEL SAFE AS $$
            SELECT
                ping.path_id, ping.packet_bytes,
                CASE WHEN ping.tier = $1 THEN ping.at ELSE reporting.start_of($1, ping.at) END, 0::double precision,
                ping.bursts_counted, ping.bursts - ping.bursts_counted + ping.bursts_during_test,
                ping.bursts_not_measured::double precision
            FROM reporting.ping
            WHERE {_in_whole_hours("ping")}
        $$
    """,
    # Rows to add up for each path and packet size, over the whole periods of a tier that [since, until) touches.
    "path_coverage(tier text, since timestamptz, until timestamptz, moment timestamptz)": f"""
        RETURNS TABLE (path_id integer, packet_bytes integer, {COVERED}) LANGUAGE sql STABLE PARALLEL SAFE AS $$
            SELECT
                plan.path_id, size, reporting.cycles(
                    plan.every_s,
                    greatest(plan.started_at, reporting.start_of($1, since)),
                    least(plan.ended_at, reporting.end_of($1, until), reporting.start_of('hour', moment))
                ), 0::double precision, 0::double precision, 0::double precision
            FROM reporting.plan
            CROSS JOIN unnest(plan.packet_bytes) AS size
            WHERE plan.ended_at IS NULL OR plan.ended_at > reporting.start_of($1, since)
            UNION ALL
            SELECT
                whole.path_id, whole.packet_bytes, whole.bursts_planned, whole.bursts_measured,
                whole.bursts_during_test, whole.bursts_not_measured
            FROM reporting.bursts_in_whole_hours($1, since, until, moment) AS whole
        $$
    """,
    # The same for each site that paths begin at and each period of the tier, all packet sizes together. Paths that are
    # measured alike are counted together.
    "site_coverage(tier text, since timestamptz, until timestamptz, moment timestamptz)": f"""
        RETURNS TABLE (site text, at timestamptz, {COVERED}) LANGUAGE sql STABLE PARALLEL SAFE AS $$
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
                path.source::text, whole.at, 0::double precision, sum(whole.bursts_measured),
                sum(whole.bursts_during_test), sum(whole.bursts_not_measured)
            FROM reporting.bursts_in_whole_hours($1, since, until, moment) AS whole
            INNER JOIN reporting.path_source AS path ON path.path_id = whole.path_id
            GROUP BY path.source, whole.at
        $$
    """,
    # Slots and tests in whole hours, as bursts_in_whole_hours.
    "throughput_in_whole_hours(tier text, since timestamptz, until timestamptz, moment timestamptz)": f"""
        RETURNS TABLE (path_id integer, at timestamptz, tests integer, slots_planned integer)
        LANGUAGE sql STABLE PARALLEL SAFE AS $$
            SELECT
                throughput.path_id, reporting.start_of($1, throughput.at), throughput.tests, throughput.slots_planned
            FROM reporting.throughput
            WHERE {_in_whole_hours("throughput")}
        $$
    """,
    # The path between the same hosts in the reverse direction; null where there is none.
    "reverse_of(path_id integer)": """
        RETURNS integer LANGUAGE sql STABLE PARALLEL SAFE AS $$
            SELECT back.path_id
            FROM reporting.path AS forth
            INNER JOIN reporting.path AS back
                ON back.source_host = forth.destination_host AND back.destination_host = forth.source_host
                AND back.source = forth.destination AND back.destination = forth.source AND back.family = forth.family
            WHERE forth.path_id = $1
        $$
    """,
}

# The site that a path begins at, with fewer joins than in the view `path`, since coverage reads all paths.
PATH_SOURCE = """
CREATE VIEW reporting.path_source AS
SELECT path.id AS path_id, site.name AS source
FROM path
INNER JOIN host ON host.id = path.source_id
INNER JOIN site ON site.id = host.site_id
"""

# A burst with quantiles of its round trips, and not those, nor the address or text that came with it.
BURST = """
CREATE VIEW reporting.burst AS
SELECT
    path_id, packet_bytes, measured_at, outcome, sent, received, duplicates, reordered, during_test, ttl,
    quantiles_ms[1] AS rtt_min_ms, quantiles_ms[2] AS rtt_p25_ms, quantiles_ms[3] AS rtt_median_ms,
    quantiles_ms[4] AS rtt_p75_ms, quantiles_ms[5] AS rtt_max_ms
FROM burst
CROSS JOIN LATERAL (
    SELECT percentile_cont(ARRAY[0, 0.25, 0.5, 0.75, 1]) WITHIN GROUP (ORDER BY rtt_ms) AS quantiles_ms
    FROM unnest(rtts_ms) AS rtt_ms
) AS rtt
"""

# `overdue` are those that waited for longer than the rollup is meant to take: a summary of a running period waits by
# design (monitor.archive.rollup.recompute.TIERS), twice that long at most.
WAITING = """
CREATE OR REPLACE VIEW reporting.waiting AS
SELECT
    'hour' AS tier, count(*) AS summaries, min(marked_at) AS since,
    count(*) FILTER (WHERE marked_at < now() - interval '1 minute') AS overdue
FROM dirty_hour HAVING count(*) > 0
UNION ALL
SELECT
    tier, count(*), min(marked_at),
    count(*) FILTER (WHERE marked_at < now() - CASE tier
        WHEN 'day' THEN interval '20 minutes' WHEN 'month' THEN interval '2 hours' ELSE interval '12 hours' END)
FROM dirty_summary GROUP BY tier
"""

CREATE = [
    PATH_SOURCE,
    *(f"CREATE FUNCTION reporting.{name} {text}" for name, text in FUNCTIONS.items()),
    BURST,
    WAITING,
]
DROP = [
    "DROP VIEW reporting.burst",
    "DROP VIEW reporting.waiting",
    f"CREATE VIEW reporting.waiting AS {BEFORE.REPORTING_VIEWS['waiting']}",
    *(f"DROP FUNCTION reporting.{name}" for name in reversed(FUNCTIONS)),
    "DROP VIEW reporting.path_source",
]


class Migration(migrations.Migration):
    dependencies = [("archive", "0004_evaluated_at")]

    operations = [migrations.RunSQL(CREATE, DROP)]

"""The schema `reporting`: views for Grafana and whoever else reads with SQL, and nothing else for their role; and a
table of what the centre notes of itself each minute.

A view shows no token, no address of an agent and no raw burst. `tier` says which summaries a period is answered from.
"""

from django.db import migrations, models

TIERS = ("hour", "day", "month")

# A literal `tier` in each branch: a question that names one reads that table alone, and not only its rows.
PING = """
SELECT
    '{tier}' AS tier, {tier} AS at, path_id, packet_bytes, bursts, bursts_all_lost, bursts_none_lost,
    bursts_during_test, bursts_not_measured, bursts_planned, bursts_duplicated, bursts_reordered, sent, received,
    loss_max_ratio, rtt_min_ms, rtt_p25_ms, rtt_median_ms, rtt_p75_ms, rtt_p95_ms, rtt_max_ms, rtt_avg_ms, ipdv_ms,
    estimate_bps, estimate_is_floor
FROM burst_{tier}
"""
THROUGHPUT = """
SELECT
    '{tier}' AS tier, {tier} AS at, path_id, tests, tests_measured, slots_planned, throughput_min_bps,
    throughput_median_bps, throughput_max_bps, throughput_avg_bps
FROM throughput_{tier}
"""


def of_tiers(text):
    return "UNION ALL".join(text.format(tier=tier) for tier in TIERS)


VIEWS = {
    "site": """
        SELECT
            id AS site_id, name, title, latitude_deg, longitude_deg, country, region, has_agent,
            retired_at IS NOT NULL AS is_retired
        FROM site
    """,
    "path": """
        SELECT
            path.id AS path_id, source_site.name AS source, destination_site.name AS destination,
            source_host.name AS source_host, destination_host.name AS destination_host,
            source_host.name || ' → ' || destination_host.name AS name, path.family,
            path.retired_at IS NOT NULL AS is_retired
        FROM path
        INNER JOIN host AS source_host ON source_host.id = path.source_id
        INNER JOIN host AS destination_host ON destination_host.id = path.destination_id
        INNER JOIN site AS source_site ON source_site.id = source_host.site_id
        INNER JOIN site AS destination_site ON destination_site.id = destination_host.site_id
    """,
    "site_group": """
        SELECT site_group.name AS group_name, site.name AS site
        FROM site_group
        INNER JOIN site_group_sites AS member ON member.group_id = site_group.id
        INNER JOIN site ON site.id = member.site_id
        WHERE site_group.retired_at IS NULL
    """,
    "plan": """
        SELECT
            measurement.path_id, test.name AS test, test.kind, period.every_s, period.packet_bytes, period.started_at,
            period.ended_at
        FROM measurement_period AS period
        INNER JOIN measurement ON measurement.id = period.measurement_id
        INNER JOIN test ON test.id = measurement.test_id
    """,
    "ping": of_tiers(PING),
    "throughput": of_tiers(THROUGHPUT),
    "throughput_test": """
        SELECT
            path_id, measured_at, test, protocol, outcome, streams, duration_s, throughput_bps, average_bps, steady_s,
            retransmits, rtt_mean_ms, congestion_control, verdict, sentence, detail
        FROM throughput_test
    """,
    "capacity": """
        SELECT
            path_id, measured_at, test, outcome, verdict, capacity_bps, capacity_low_bps, capacity_high_bps,
            packet_bytes, sent, received, method, during_test, detail
        FROM capacity_result
    """,
    "incident": """
        SELECT
            id AS incident_id, rule, severity, cause,
            CASE WHEN closed_at IS NOT NULL THEN 'resolved' WHEN acknowledged_at IS NOT NULL THEN 'acknowledged'
                ELSE 'open' END AS state,
            opened_at, closed_at, acknowledged_at, summary, closing, correction, reopenings
        FROM incident
        WHERE NOT is_pending
    """,
    "incident_path": """
        SELECT found.incident_id, found.path_id, found.rule, found.sentence, found.since, found.added_at, found.is_over
        FROM incident_path AS found
        INNER JOIN incident ON incident.id = found.incident_id
        WHERE NOT incident.is_pending
    """,
    "agent": """
        SELECT
            site.name AS site, agent.accepted_at, agent.agent_version, agent.queued, agent.dropped,
            (agent.health ->> 'clock_offset_s')::double precision AS clock_offset_s,
            (agent.health -> 'kernel_clock' ->> 'is_synchronised')::boolean AS clock_is_synchronised,
            (agent.health ->> 'load_1min')::double precision AS load_1min,
            (agent.health ->> 'cpus')::integer AS cpus,
            (agent.health ->> 'lost_ticks')::bigint AS lost_cycles,
            (agent.health ->> 'set_aside')::bigint AS set_aside
        FROM site
        LEFT JOIN agent_health AS agent ON agent.site_id = site.id
        WHERE site.has_agent AND site.retired_at IS NULL
    """,
    "delivery": """
        SELECT site.name AS site, received_at, sent_at, agent_version, accepted, refused, queued, dropped
        FROM received_batch
        INNER JOIN site ON site.id = received_batch.site_id
    """,
    "refused": """
        SELECT site.name AS site, refused_at, reason
        FROM refused_result
        INNER JOIN site ON site.id = refused_result.site_id
    """,
    # As sql/completeness.sql counts: a gap in the numbers of a spool belongs to the day of the result after it.
    "completeness": """
        SELECT site.name AS site, gap.day, sum(gap.delivered)::bigint AS delivered,
            sum(greatest(gap.missing, 0))::bigint AS missing
        FROM (
            SELECT
                site_id, day, upper(numbers) - lower(numbers) AS delivered,
                lower(numbers) - coalesce(
                    max(upper(numbers)) OVER (
                        PARTITION BY site_id, spool ORDER BY lower(numbers)
                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                    ),
                    least(lower(numbers), 1)
                ) AS missing
            FROM (SELECT site_id, spool, day, unnest(sequences) AS numbers FROM delivered_day) AS stretch
        ) AS gap
        INNER JOIN site ON site.id = gap.site_id
        GROUP BY site.name, gap.day
    """,
    "waiting": """
        SELECT 'hour' AS tier, count(*) AS summaries, min(marked_at) AS since FROM dirty_hour HAVING count(*) > 0
        UNION ALL
        SELECT tier, count(*), min(marked_at) FROM dirty_summary GROUP BY tier
    """,
    "centre": """
        SELECT
            at, accepted / extract(epoch FROM at - since)::double precision AS accepted_per_s,
            refused / extract(epoch FROM at - since)::double precision AS refused_per_s,
            extract(epoch FROM at - newest_measured_at)::double precision AS behind_s,
            queued, queue_length, hours_waiting, waited_s, database_bytes
        FROM centre_sample
    """,
}

# Inlined by the planner, so that with two literal times the tier is one as well. Which tier is as in
# monitor.archive.queries and monitor.archive.periods: of one path, and of many paths together.
FUNCTIONS = {
    "tier(since timestamptz, until timestamptz)": """
        RETURNS text LANGUAGE sql IMMUTABLE AS $$
            SELECT CASE WHEN until - since <= interval '83 days' THEN 'hour'
                WHEN until - since <= interval '1999 days' THEN 'day' ELSE 'month' END
        $$
    """,
    "pooled_tier(since timestamptz, until timestamptz)": """
        RETURNS text LANGUAGE sql IMMUTABLE AS $$
            SELECT CASE WHEN until - since <= interval '2 days' THEN 'hour'
                WHEN until - since <= interval '92 days' THEN 'day' ELSE 'month' END
        $$
    """,
    "start_of(tier text, at timestamptz)": """
        RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT date_trunc(tier, at, 'UTC') $$
    """,
    # Each step of a series that the period touches, up to now, measured or not: a gap is a step without a row.
    "steps(tier text, since timestamptz, until timestamptz)": """
        RETURNS TABLE (at timestamptz, ends_at timestamptz) LANGUAGE sql STABLE AS $$
            SELECT step AT TIME ZONE 'UTC', (step + ('1 ' || tier)::interval) AT TIME ZONE 'UTC'
            FROM generate_series(
                date_trunc(tier, since AT TIME ZONE 'UTC'), least(until, now()) AT TIME ZONE 'UTC',
                ('1 ' || tier)::interval
            ) AS step
            WHERE step < until AT TIME ZONE 'UTC'
        $$
    """,
}

MAKE = [
    "CREATE SCHEMA reporting",
    *(f"CREATE VIEW reporting.{name} AS {text}" for name, text in VIEWS.items()),
    *(f"CREATE FUNCTION reporting.{name} {text}" for name, text in FUNCTIONS.items()),
]


class Migration(migrations.Migration):
    dependencies = [
        ("mesh", "0004_service_levels"),
        ("alerts", "0006_evidence_and_delivery"),
        ("agents", "0001_initial"),
        ("archive", "0012_undiagnosed_tests"),
    ]

    operations = [
        migrations.CreateModel(
            name="CentreSample",
            fields=[
                ("at", models.DateTimeField(primary_key=True, serialize=False)),
                ("since", models.DateTimeField(help_text="from when on deliveries are counted: the sample before")),
                ("accepted", models.IntegerField(help_text="results that came in this time and were stored")),
                ("refused", models.IntegerField()),
                ("newest_measured_at", models.DateTimeField(help_text="of all results", null=True)),
                ("queued", models.BigIntegerField(help_text="results in all agents' spools, as they last said")),
                (
                    "queue_length",
                    models.IntegerField(help_text="tasks that wait in Redis; null while it is away", null=True),
                ),
                ("hours_waiting", models.IntegerField(help_text="hours that wait for their summary")),
                ("waited_s", models.FloatField(help_text="the longest of them; 0 where none waits")),
                ("database_bytes", models.BigIntegerField()),
            ],
            options={"db_table": "centre_sample"},
        ),
        migrations.RunSQL(MAKE, "DROP SCHEMA reporting CASCADE"),
    ]

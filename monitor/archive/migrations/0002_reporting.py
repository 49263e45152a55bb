"""The formulas, the views of rollups, and the schema `reporting`: views for Grafana and whoever else reads with SQL.

The role of Grafana reads nothing but the schema. A view shows no token, no address of an agent and no raw burst. `tier`
says from which rollups a period is answered.

`monitor.analysis` has the same formulas; tests/db/archive/test_formulas.py compares them. All are NULL where undefined.
The planner inlines them: a function of a single expression that is not STRICT, with cheap arguments where a parameter
occurs more than once. A call that is not inlined takes microseconds for each row.
"""

from django.db import migrations

TIERS = ("hour", "day", "month", "year")
REPORTING_TIERS = ("hour", "day", "month")

EFFECTIVE_LATENCY_MS = "(rtt_avg_ms + 2 * ipdv_ms + 10)"
# The E-model has L/40 below 160 ms and (L - 120)/10 from there on: always the greater of the two.
R = (
    "least(100, greatest(0, 93.2 - 250 * loss_ratio"
    f" - greatest({EFFECTIVE_LATENCY_MS} / 40, ({EFFECTIVE_LATENCY_MS} - 120) / 10)))"
)
COUNTS = "sent double precision, received double precision"

FORMULAS = {
    # Upper 95% bound of the loss where none of `sent` packets was lost ("rule of three"), at most 1.
    "loss_bound_ratio(sent double precision)": "CASE WHEN sent > 0 THEN least(3 / sent, 1) END",
    # Mathis et al. (1997) as in PingER's tables: one stream of Reno, segments of 1460 bytes, C = 1.
    "mathis_bps(rtt_ms double precision, loss_ratio double precision)": (
        "1460 * 8 / (nullif(greatest(rtt_ms, 0), 0) / 1000 * sqrt(nullif(greatest(loss_ratio, 0), 0)))"
    ),
    # The Mathis rate of counts of packets. With none lost it is a floor, at the bound of the loss.
    f"mathis_estimate_bps(rtt_avg_ms double precision, {COUNTS})": (
        "reporting.mathis_bps(rtt_avg_ms, CASE WHEN received < sent THEN (sent - received) / sent"
        " WHEN received >= sent THEN reporting.loss_bound_ratio(sent) END)"
    ),
    # Whether this estimate is a floor.
    f"mathis_estimate_is_floor(rtt_avg_ms double precision, {COUNTS})": (
        "CASE WHEN rtt_avg_ms > 0 AND sent > 0 THEN received >= sent END"
    ),
    # Mean opinion score, 1 to 4.5: PingER's short form of the E-model, and ITU-T G.107, Annex B.
    "mos(rtt_avg_ms double precision, ipdv_ms double precision, loss_ratio double precision)": (
        "CASE WHEN rtt_avg_ms + ipdv_ms + loss_ratio IS NOT NULL"
        f" THEN greatest(1, 1 + 0.035 * {R} + 7e-6 * {R} * ({R} - 60) * (100 - {R})) END"
    ),
}


# Each summary with its metrics by the names of monitor.archive.queries.metrics.
METRICS = """
CREATE VIEW metrics_by_{tier} AS
SELECT
    path_id, packet_bytes, {tier},
    sent, received, (sent - received)::double precision / nullif(sent, 0) AS loss_ratio, loss_max_ratio,
    CASE WHEN received = sent THEN reporting.loss_bound_ratio(sent) END AS loss_floor_ratio,
    rtt_min_ms, rtt_p25_ms, rtt_median_ms, rtt_p75_ms, rtt_p90_ms, rtt_p95_ms, rtt_max_ms, rtt_avg_ms,
    rtt_iqr_ms, ipdv_ms,
    losses_paired::double precision / nullif(losses_followed, 0) AS conditional_loss_ratio,
    losses_followed::double precision / nullif(losses_followed - losses_paired, 0) AS mean_loss_burst_packets,
    bursts_duplicated::double precision / nullif(bursts, 0) AS duplicates_ratio,
    bursts_reordered::double precision / nullif(bursts, 0) AS out_of_order_ratio,
    late::double precision / nullif(sent, 0) AS late_ratio,
    bursts_all_lost::double precision / nullif(bursts, 0) AS unreachability_ratio,
    bursts_none_lost::double precision / nullif(bursts, 0) AS zero_loss_ratio,
    sqrt((
        (1 - nullif(rate_avg_per_ms / nullif(rate_max_per_ms, 'Infinity'), 'NaN')) ^ 2
        + (1 - received_avg_ratio / nullif(received_max_ratio, 0)) ^ 2
    ) / 2) AS unpredictability_ratio,
    estimate_bps, estimate_is_floor,
    reporting.mos(rtt_avg_ms, ipdv_ms, (sent - received)::double precision / nullif(sent, 0)) AS mos,
    CASE WHEN bursts_planned > 0
        THEN least((bursts + bursts_during_test)::double precision / bursts_planned, 1) END AS coverage_ratio
FROM burst_{tier}
"""

SUMS = """
    sum(bursts) AS bursts, sum(bursts_all_lost) AS bursts_all_lost, sum(bursts_none_lost) AS bursts_none_lost,
    sum(bursts_during_test) AS bursts_during_test, sum(bursts_not_measured) AS bursts_not_measured,
    sum(bursts_planned) AS bursts_planned, sum(sent) AS sent, sum(received) AS received, sum(late) AS late,
    sum(duplicates) AS duplicates, sum(reordered) AS reordered, sum(losses_followed) AS losses_followed,
    sum(losses_paired) AS losses_paired, max(loss_max_ratio) AS loss_max_ratio, min(rtt_min_ms) AS rtt_min_ms,
    max(rtt_max_ms) AS rtt_max_ms, sum(rtt_avg_ms * received) / nullif(sum(received), 0) AS rtt_avg_ms
"""

# All packet sizes of a path together: sums and extremes only, since quantiles of two sizes together would say nothing.
SIZES_POOLED = """
CREATE VIEW sizes_pooled_by_{tier} AS
SELECT path_id, {tier}, {sums} FROM burst_{tier} GROUP BY path_id, {tier}
"""

# All hosts of two sites together, over IPv4 and IPv6.
FAMILIES_POOLED = """
CREATE VIEW families_pooled_by_{tier} AS
SELECT
    source_host.site_id AS source_site_id, destination_host.site_id AS destination_site_id, packet_bytes, {tier},
    count(*) AS paths, {sums}
FROM burst_{tier}
INNER JOIN path ON path.id = burst_{tier}.path_id
INNER JOIN host AS source_host ON source_host.id = path.source_id
INNER JOIN host AS destination_host ON destination_host.id = path.destination_id
GROUP BY source_host.site_id, destination_host.site_id, packet_bytes, {tier}
"""

# A literal `tier` in each branch: a query of a tier reads that table alone, and not only its rows.
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


def union_of_tiers(text):
    return "UNION ALL".join(text.format(tier=tier) for tier in REPORTING_TIERS)


REPORTING_VIEWS = {
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
    "ping": union_of_tiers(PING),
    "throughput": union_of_tiers(THROUGHPUT),
    "throughput_test": """
        SELECT
            path_id, measured_at, test, protocol, outcome, streams, duration_s, throughput_bps, average_bps, steady_s,
            retransmits, rtt_mean_ms, congestion_control, verdict, sentence, detail
        FROM throughput_test
    """,
    "disk_to_disk_test": """
        SELECT
            path_id, measured_at, test, outcome, tool, streams, file_bytes, moved_bytes, moving_s, syncing_s,
            disk_to_disk_bps, memory_to_memory_bps, read_bps, read_cached_ratio, write_bps, is_verified, verdict,
            sentence, detail
        FROM disk_to_disk_test
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
    # As sql/completeness.sql counts: a gap in the numbers of a spool belongs to the day of the result after it. The
    # bound is monitor.archive.queries.operation.completeness.LARGEST_GAP: a number that leaps further ahead has no gap
    # before it.
    "completeness": """
        SELECT
            site.name AS site, gap.day, sum(gap.delivered)::bigint AS delivered,
            coalesce(sum(gap.missing) FILTER (WHERE gap.missing BETWEEN 0 AND 1000000000), 0)::bigint AS missing
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


# Inlined by the planner, so that with two literal times the tier is a literal as well. The tiers of a path and of many
# paths together: the bounds of monitor.archive.queries.paths.STEPS and those near monitor.archive.periods, in days.
PERIODS = {
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


def returned(name):
    return "boolean" if "_is_" in name else "double precision"


def of_tiers(*texts):
    return [text.format(tier=tier, sums=SUMS) for tier in TIERS for text in texts]


CREATE = [
    "CREATE SCHEMA reporting",
    *(
        f"CREATE FUNCTION reporting.{name} RETURNS {returned(name)} LANGUAGE sql IMMUTABLE PARALLEL SAFE"
        f" AS $$ SELECT {expression} $$"
        for name, expression in FORMULAS.items()
    ),
    *(f"CREATE FUNCTION reporting.{name} {text}" for name, text in PERIODS.items()),
    *of_tiers(METRICS, SIZES_POOLED, FAMILIES_POOLED),
    *(f"CREATE VIEW reporting.{name} AS {text}" for name, text in REPORTING_VIEWS.items()),
]
DROP = [
    *(f"DROP VIEW {view}_{tier}" for tier in TIERS for view in ("metrics_by", "sizes_pooled_by", "families_pooled_by")),
    "DROP SCHEMA reporting CASCADE",
]


class Migration(migrations.Migration):
    replaces = [
        ("archive", "0013_reporting"),
        ("archive", "0016_no_figure_where_there_is_none"),
        ("archive", "0017_reporting_of_files"),
        ("archive", "0018_leaps_are_no_gaps"),
        ("archive", "0021_formulas"),
    ]

    dependencies = [
        ("mesh", "0001_mesh"),
        ("alerts", "0001_incidents"),
        ("agents", "0001_initial"),
        ("archive", "0001_tables"),
    ]

    operations = [migrations.RunSQL(CREATE, DROP)]

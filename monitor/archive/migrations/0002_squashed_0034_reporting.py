"""The formulas, the views of rollups, and the schema `reporting`: views for Grafana and whoever else reads with SQL.

The role of Grafana reads nothing but the schema. A view shows no token, no address of an agent and no raw burst. `tier`
says from which rollups a period is answered.

`monitor.analysis` has the same formulas; tests/db/archive/test_formulas.py compares them. All are NULL where undefined.
The planner inlines them: a function of a single expression that is not STRICT, with cheap arguments where a parameter
occurs more than once. A call that is not inlined takes microseconds for each row.

A summary counts the plan of its whole hour or day, also while that runs. The functions of coverage count cycles that
began before the running hour, and the measured bursts of the same hours, from an agent's first report on. Rows of
planned and of measured bursts come apart; whoever calls adds them up, so that a filter on a path or site reaches the
tables. These functions are STABLE where they use the session's time zone or tables.
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
    # Of a summary. Numbers of bursts come as integers, and sums of them as others.
    "bursts_measured(bursts double precision, bursts_during_test double precision)": "bursts + bursts_during_test",
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
        THEN least(reporting.bursts_measured(bursts, bursts_during_test) / bursts_planned, 1) END AS coverage_ratio,
    loaded_sent, loaded_received, loaded_rtt_median_ms, loaded_rtt_p95_ms
FROM burst_{tier}
"""

SUMS = """
    sum(bursts) AS bursts, sum(bursts_all_lost) AS bursts_all_lost, sum(bursts_none_lost) AS bursts_none_lost,
    sum(bursts_during_test) AS bursts_during_test, sum(bursts_not_measured) AS bursts_not_measured,
    sum(bursts_planned) AS bursts_planned, sum(sent) AS sent, sum(received) AS received, sum(late) AS late,
    sum(duplicates) AS duplicates, sum(reordered) AS reordered, sum(losses_followed) AS losses_followed,
    sum(losses_paired) AS losses_paired, max(loss_max_ratio) AS loss_max_ratio, min(rtt_min_ms) AS rtt_min_ms,
    max(rtt_max_ms) AS rtt_max_ms, sum(rtt_avg_ms * received) / nullif(sum(received), 0) AS rtt_avg_ms,
    sum(bursts - coalesce(bursts_excluded, 0)) AS bursts_counted, sum(loaded_sent) AS loaded_sent,
    sum(loaded_received) AS loaded_received
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
    estimate_bps, estimate_is_floor, bursts - coalesce(bursts_excluded, 0) AS bursts_counted, loaded_sent,
    loaded_received, loaded_rtt_median_ms, loaded_rtt_p95_ms
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


def delay(name, direction, sign, error):
    """An end of the interval of a delay, never below 0; null without timestamps of the reflector."""
    raw = f"{direction}_{name}_ms {sign} offset_{error}_ms"
    return f"CASE WHEN {raw} IS NOT NULL THEN greatest(0, {raw}) END"


def delays(name):
    return f"""
            {delay(name, "forward", "-", "hi")} AS forward_delay_lo_ms,
            {delay(name, "forward", "-", "lo")} AS forward_delay_hi_ms,
            {delay(name, "reverse", "+", "lo")} AS reverse_delay_lo_ms,
            {delay(name, "reverse", "+", "hi")} AS reverse_delay_hi_ms
    """


BEGAN = """coalesce(
            began_at,
            (SELECT min(since) FROM incident_path WHERE incident_path.incident_id = incident.id),
            opened_at
        )"""
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
    # From an agent's first report on.
    "plan": """
        SELECT
            measurement.path_id, test.name AS test, test.kind, period.every_s, period.packet_bytes,
            greatest(period.started_at, account.since) AS started_at, period.ended_at
        FROM measurement_period AS period
        INNER JOIN measurement ON measurement.id = period.measurement_id
        INNER JOIN test ON test.id = measurement.test_id
        INNER JOIN path ON path.id = measurement.path_id
        INNER JOIN host ON host.id = path.source_id
        LEFT JOIN agent_account AS account ON account.site_id = host.site_id
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
    # Ended only where it is resolved: `greatest` and `least` skip nulls.
    "incident": f"""
        SELECT
            id AS incident_id, rule, severity, cause,
            CASE WHEN closed_at IS NOT NULL THEN 'resolved' WHEN acknowledged_at IS NOT NULL THEN 'acknowledged'
                ELSE 'open' END AS state,
            opened_at, closed_at, acknowledged_at, summary, closing, correction, reopenings,
            coalesce(nullif(title, ''), summary) AS title, {BEGAN} AS began_at,
            CASE WHEN closed_at IS NOT NULL THEN greatest(least(ended_at, closed_at), {BEGAN}) END AS ended_at
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
    # `overdue` are those that waited for longer than the rollup is meant to take: a summary of a running period waits
    # by design (monitor.archive.rollup.recompute.TIERS), twice that long at most.
    "waiting": """
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
    """,
    "centre": """
        SELECT
            at, accepted / extract(epoch FROM at - since)::double precision AS accepted_per_s,
            refused / extract(epoch FROM at - since)::double precision AS refused_per_s,
            extract(epoch FROM at - newest_measured_at)::double precision AS behind_s,
            queued, queue_length, hours_waiting, waited_s, database_bytes
        FROM centre_sample
    """,
    # The site that a path begins at, with fewer joins than in the view `path`, since coverage reads all paths.
    "path_source": """
        SELECT path.id AS path_id, site.name AS source
        FROM path
        INNER JOIN host ON host.id = path.source_id
        INNER JOIN site ON site.id = host.site_id
    """,
    # A burst with quantiles of its round trips, and not those, nor the address or text that came with it.
    "burst": """
        SELECT
            path_id, packet_bytes, measured_at, outcome, sent, received, duplicates, reordered, during_test, ttl,
            quantiles_ms[1] AS rtt_min_ms, quantiles_ms[2] AS rtt_p25_ms, quantiles_ms[3] AS rtt_median_ms,
            quantiles_ms[4] AS rtt_p75_ms, quantiles_ms[5] AS rtt_max_ms
        FROM burst
        CROSS JOIN LATERAL (
            SELECT percentile_cont(ARRAY[0, 0.25, 0.5, 0.75, 1]) WITHIN GROUP (ORDER BY rtt_ms) AS quantiles_ms
            FROM unnest(rtts_ms) AS rtt_ms
        ) AS rtt
    """,
    # Slots in which tests of a kind that needs them were to begin; those before kept_since are deleted.
    "slot": """
        SELECT measurement.path_id, test.name AS test, test.kind, slot.starts_at
        FROM slot
        INNER JOIN measurement ON measurement.id = slot.measurement_id
        INNER JOIN test ON test.id = measurement.test_id
    """,
    "kept_since": "SELECT key, since FROM kept_since",
    "trace": """
        SELECT
            path_id, measured_at, test, outcome, reason, protocol, nullif(flow, -1) AS flow, reached,
            cardinality(sent) AS hops, during_test, detail
        FROM trace
    """,
    # `route` is its number among those of the path; `until` is null for the present route.
    "route_period": """
        SELECT
            period.path_id, period.protocol, nullif(period.flow, -1) AS flow, period.since, period.last_at,
            period.until, route.number AS route, cardinality(route.hops) AS hops,
            route.reached_at IS NOT NULL AS reached
        FROM path_route AS period
        INNER JOIN route ON route.id = period.route_id
    """,
    # A change is between `last_before_at` and `at`. `first_ttl` is that of the first hop that differs; a silent hop is
    # unknown and no difference.
    "route_change": """
        SELECT
            later.path_id, later.protocol, nullif(later.flow, -1) AS flow, earlier.last_at AS last_before_at,
            later.since AS at, before.number AS route_before, after.number AS route_after,
            cardinality(before.hops) AS hops_before, cardinality(after.hops) AS hops_after, least(
                (
                    SELECT min(ttl)
                    FROM generate_subscripts(before.hops, 1) AS ttl
                    WHERE before.hops[ttl] <> after.hops[ttl]
                ),
                least(cardinality(before.hops), cardinality(after.hops)) + 1
            ) AS first_ttl
        FROM path_route AS later
        INNER JOIN path_route AS earlier
            ON earlier.path_id = later.path_id AND earlier.protocol = later.protocol AND earlier.flow = later.flow
            AND earlier.until = later.since
        INNER JOIN route AS before ON before.id = earlier.route_id
        INNER JOIN route AS after ON after.id = later.route_id
    """,
    # Loss is null where the reflector keeps no counter, and of the way back where nothing came there.
    "direction_cycle": f"""
        SELECT
            path_id, measured_at, test, packet_bytes, outcome, during_test, sent, received, undecided, forward_lost,
            reverse_lost, forward_lost::double precision / nullif(sent - undecided, 0) AS forward_loss_ratio,
            reverse_lost::double precision / nullif(sent - undecided - forward_lost, 0) AS reverse_loss_ratio,
            forward_duplicates, reverse_duplicates, forward_reordered, reverse_reordered,
            forward_p95_ms - forward_min_ms AS forward_variation_ms,
            reverse_p95_ms - reverse_min_ms AS reverse_variation_ms,
            {delays("median")}
        FROM direction_burst
    """,
    "direction": union_of_tiers(f"""
        SELECT
            '{{tier}}' AS tier, {{tier}} AS at, path_id, bursts, bursts_counted, bursts_delayed, sent, received,
            counted, forward_lost, reverse_lost,
            forward_lost::double precision / nullif(counted, 0) AS forward_loss_ratio,
            reverse_lost::double precision / nullif(counted - forward_lost, 0) AS reverse_loss_ratio,
            forward_duplicates, reverse_duplicates, forward_reordered, reverse_reordered,
            forward_variation_ms, reverse_variation_ms,
            {delays("avg")}
        FROM direction_{{tier}}
    """),
    "policer": """
        SELECT
            path_id, measured_at, test, outcome, verdict, sustained_bps, sustained_low_bps, sustained_high_bps,
            burst_bytes, burst_low_bytes, burst_high_bytes, peak_bps, packet_bytes, sent, received, delay_rise_ms,
            sentence, detail
        FROM policer_result
    """,
    "interface": """
        SELECT
            path_id, measured_at, test, outcome, router, interface, alias, speed_bps, interval_s, in_bps, out_bps,
            in_errors, out_errors, in_drops, out_drops, during_test, detail
        FROM interface_result
    """,
    "interface_week": """
        SELECT path_id, test, week, five_minutes, in_p95_bps, out_p95_bps, speed_bps
        FROM interface_week
        WHERE five_minutes IS NOT NULL
    """,
    "request_response": """
        SELECT
            path_id, measured_at, test, outcome, request_bytes, response_bytes, transactions, errors, minimum_ms,
            median_ms, p95_ms, p99_ms, maximum_ms, transactions_per_s, payload_bytes_per_s, connect_ms, first_ms,
            after_idle_ms, retransmits, far_retransmits, during_test, detail
        FROM request_response
    """,
    "aggregate": """
        SELECT
            slot_id, test, shape, starts_at, ends_at, state, is_final, members, measured, sum_bps, partial_sum_bps,
            fairness, common_s, start_spread_s
        FROM aggregate_run
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

MEASURED = "reporting.bursts_measured(ping.bursts, ping.bursts_during_test)"
COVERED = """bursts_planned double precision, bursts_measured double precision,
            bursts_during_test double precision, bursts_not_measured double precision"""


def in_whole_hours(view):
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


COVERAGE = {
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
                {MEASURED}, ping.bursts_during_test::double precision,
                ping.bursts_not_measured::double precision
            FROM reporting.ping
            WHERE {in_whole_hours("ping")}
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
    # Rows to add up for each site that paths begin at and each period of the tier, all packet sizes together. Paths
    # that are measured alike are counted together. OFFSET 0 joins the site to each path, not to each summary.
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
                whole.source::text, reporting.start_of($1, whole.at), 0::double precision, sum(whole.bursts_measured),
                sum(whole.bursts_during_test), sum(whole.bursts_not_measured)
            FROM (
                SELECT
                    path.source, ping.at, sum({MEASURED}) AS bursts_measured,
                    sum(ping.bursts_during_test)::double precision AS bursts_during_test,
                    sum(ping.bursts_not_measured)::double precision AS bursts_not_measured
                FROM reporting.ping
                INNER JOIN (SELECT path_id, source FROM reporting.path_source OFFSET 0) AS path
                    ON path.path_id = ping.path_id
                WHERE {in_whole_hours("ping")}
                GROUP BY path.source, ping.at
            ) AS whole
            GROUP BY whole.source, reporting.start_of($1, whole.at)
        $$
    """,
    # Rows to add up for each path and period: tests in whole hours, as bursts_in_whole_hours, and slots that begin in
    # whole hours, also where nothing was delivered.
    "throughput_in_whole_hours(tier text, since timestamptz, until timestamptz, moment timestamptz)": f"""
        RETURNS TABLE (path_id integer, at timestamptz, tests integer, slots_planned integer)
        LANGUAGE sql STABLE PARALLEL SAFE AS $$
            SELECT
                throughput.path_id, reporting.start_of($1, throughput.at), throughput.tests,
                CASE WHEN throughput.at < coalesce(
                    (SELECT kept.since FROM reporting.kept_since AS kept WHERE kept.key = 'slots'), '-infinity'
                ) THEN throughput.slots_planned ELSE 0 END
            FROM reporting.throughput
            WHERE {in_whole_hours("throughput")}
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
    *(f"CREATE VIEW reporting.{name} AS {text}" for name, text in VIEWS.items()),
    *(f"CREATE FUNCTION reporting.{name} {text}" for name, text in COVERAGE.items()),
]


class Migration(migrations.Migration):
    replaces = [
        ("archive", "0002_reporting"), ("archive", "0005_coverage_and_bursts"), ("archive", "0006_coverage_by_plan"),
        ("archive", "0007_incident_title"), ("archive", "0008_measured_bursts"), ("archive", "0010_incident_period"),
        ("archive", "0011_route_views"), ("archive", "0018_direction_views"), ("archive", "0024_policer_view"),
        ("archive", "0031_interface_views"), ("archive", "0032_response_and_aggregate_views"),
    ]  # fmt: skip

    dependencies = [
        ("mesh", "0001_squashed_0014_tables"),
        ("alerts", "0001_squashed_0017_incidents"),
        ("agents", "0001_initial"),
        ("archive", "0001_squashed_0034_tables"),
    ]

    operations = [migrations.RunSQL(CREATE)]

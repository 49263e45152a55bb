"""Rows to pool over a period: its own bursts and tests up to three hours, and beyond the summaries that it touches; and
where a chart draws them."""

from django.db import migrations

# Three hours of 20 sites with a burst every ten seconds are 400,000 bursts.
IS_SHORT = """
    CREATE FUNCTION reporting.is_short(since timestamptz, until timestamptz)
    RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT until - since <= interval '3 hours' $$
"""

# As monitor.archive.rollup counts bursts. Its figures are scalar subqueries, so that those of no interest cost nothing.
COUNTED_BURST = """
    CREATE VIEW reporting.counted_burst AS
    SELECT
        path_id, packet_bytes, measured_at AS at, counts::integer AS bursts,
        (counts AND received = 0 AND coalesce(cardinality(array_remove(loaded_rtts_ms, NULL)), 0) = 0)::integer
            AS bursts_all_lost,
        during_test::integer AS bursts_during_test, (NOT counts AND NOT during_test)::integer AS bursts_not_measured,
        CASE WHEN counts THEN sent ELSE 0 END AS sent, CASE WHEN counts THEN received ELSE 0 END AS received,
        CASE WHEN counts THEN (SELECT min(rtt_ms) FROM unnest(rtts_ms) AS rtt_ms) END AS rtt_min_ms,
        CASE WHEN counts THEN (
            SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY rtt_ms) FROM unnest(rtts_ms) AS rtt_ms
        ) END AS rtt_median_ms,
        CASE WHEN counts THEN (SELECT max(rtt_ms) FROM unnest(rtts_ms) AS rtt_ms) END AS rtt_max_ms,
        CASE WHEN counts THEN (SELECT avg(rtt_ms) FROM unnest(rtts_ms) AS rtt_ms) END AS rtt_avg_ms
    FROM (
        SELECT
            path_id, packet_bytes, measured_at, sent, received, rtts_ms, loaded_rtts_ms, during_test,
            outcome = 'measured' AND NOT during_test AS counts
        FROM burst
    ) AS burst
"""

# Bursts from before `until` that were deleted, or moved to files, leave their summaries.
KEEPS_BURSTS = """
    CREATE FUNCTION reporting.keeps_bursts(until timestamptz)
    RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
        SELECT EXISTS (SELECT FROM reporting.counted_burst WHERE at < until)
    $$
"""
OF_PERIOD = """tier = reporting.pooled_tier(since, until)
            AND at >= reporting.start_of(reporting.pooled_tier(since, until), since) AND at < until"""

PING_BETWEEN = f"""
    CREATE FUNCTION reporting.ping_between(since timestamptz, until timestamptz)
    RETURNS TABLE (
        at timestamptz, path_id integer, packet_bytes integer, bursts integer, bursts_all_lost integer,
        bursts_during_test integer, bursts_not_measured integer, sent bigint, received bigint,
        rtt_min_ms double precision, rtt_median_ms double precision, rtt_max_ms double precision,
        rtt_avg_ms double precision
    ) LANGUAGE sql STABLE PARALLEL SAFE AS $$
        SELECT
            at, path_id, packet_bytes, bursts, bursts_all_lost, bursts_during_test, bursts_not_measured, sent::bigint,
            received::bigint, rtt_min_ms::double precision, rtt_median_ms::double precision,
            rtt_max_ms::double precision, rtt_avg_ms::double precision
        FROM reporting.ping
        WHERE {OF_PERIOD} AND NOT (reporting.is_short(since, until) AND reporting.keeps_bursts(until))
        UNION ALL
        SELECT
            at, path_id, packet_bytes, bursts, bursts_all_lost, bursts_during_test, bursts_not_measured, sent::bigint,
            received::bigint, rtt_min_ms::double precision, rtt_median_ms, rtt_max_ms::double precision, rtt_avg_ms
        FROM reporting.counted_burst
        WHERE at >= since AND at < until AND reporting.is_short(since, until) AND reporting.keeps_bursts(until)
    $$
"""

THROUGHPUT_BETWEEN = f"""
    CREATE FUNCTION reporting.throughput_between(since timestamptz, until timestamptz)
    RETURNS TABLE (
        path_id integer, tests integer, tests_measured integer, throughput_avg_bps double precision,
        throughput_max_bps double precision
    ) LANGUAGE sql STABLE PARALLEL SAFE AS $$
        SELECT
            path_id, tests, tests_measured, throughput_avg_bps::double precision, throughput_max_bps::double precision
        FROM reporting.throughput
        WHERE {OF_PERIOD} AND NOT reporting.is_short(since, until)
        UNION ALL
        SELECT path_id, 1, (throughput_bps IS NOT NULL)::integer, throughput_bps, throughput_bps
        FROM reporting.throughput_test
        WHERE
            protocol = 'tcp' AND test <> 'on-demand'
            AND measured_at >= since AND measured_at < until AND reporting.is_short(since, until)
    $$
"""

# Steps of a line: the first begins with the period, and the last has a second row at the end of the period, or now.
LINE_STEPS = """
    CREATE FUNCTION reporting.line_steps(tier text, since timestamptz, until timestamptz)
    RETURNS TABLE (at timestamptz, drawn_at timestamptz) LANGUAGE sql STABLE AS $$
        SELECT at, greatest(at, since) FROM reporting.steps(tier, since, until)
        UNION ALL
        (SELECT at, least(until, now()) FROM reporting.steps(tier, since, until) ORDER BY at DESC LIMIT 1)
    $$
"""

# Begin of a bar. Grafana draws all bars of a panel as wide as the least distance between two of them, so that the first
# of many keeps its whole width, outside of the period.
BAR_AT = """
    CREATE FUNCTION reporting.bar_at(at timestamptz, tier text, since timestamptz, until timestamptz)
    RETURNS timestamptz LANGUAGE sql STABLE AS $$
        SELECT CASE WHEN until - since <= 3 * ('1 ' || tier)::interval THEN greatest(at, since) ELSE at END
    $$
"""


class Migration(migrations.Migration):
    dependencies = [("archive", "0035_shown_hops")]

    operations = [
        migrations.RunSQL(
            [IS_SHORT, COUNTED_BURST, KEEPS_BURSTS, PING_BETWEEN, THROUGHPUT_BETWEEN, LINE_STEPS, BAR_AT]
        ),
    ]

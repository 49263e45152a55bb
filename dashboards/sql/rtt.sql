-- Quantiles of RTTs, ms: a row per burst up to two days, beyond a row per hour that the period touches, beyond 83 days
-- per day; null where none came back. Where bursts are missing for more than twice their interval a row without
-- figures makes a gap. Bursts that are no longer kept are shown by the hour.
WITH burst AS (
    SELECT
        *,
        LEAD(measured_at) OVER (ORDER BY measured_at) AS next_at
    FROM reporting.burst
    WHERE $__timeTo()::timestamptz - $__timeFrom()::timestamptz <= INTERVAL '2 days'
        AND $__timeFilter(measured_at)
        AND path_id = {path}
        AND packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
),
usual AS (
    SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY next_at - measured_at) AS spacing
    FROM burst
),
measured AS (
    SELECT *
    FROM reporting.ping
    WHERE tier = reporting.tier($__timeFrom(), $__timeTo())
        AND at >= reporting.start_of(reporting.tier($__timeFrom(), $__timeTo()), $__timeFrom())
        AND at < $__timeTo()::timestamptz
        AND path_id = {path}
        AND packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
        AND NOT EXISTS (SELECT FROM burst)
)
SELECT
    measured_at AS "time",
    rtt_min_ms AS "Minimum",
    rtt_p25_ms AS "25%",
    rtt_median_ms AS "Median",
    rtt_p75_ms AS "75%",
    NULL::float8 AS "95%",
    rtt_max_ms AS "Maximum"
FROM burst
UNION ALL
SELECT measured_at + spacing, NULL, NULL, NULL, NULL, NULL, NULL
FROM burst
CROSS JOIN usual
WHERE next_at - measured_at > 2 * spacing
UNION ALL
SELECT step.drawn_at, rtt_min_ms, rtt_p25_ms, rtt_median_ms, rtt_p75_ms, rtt_p95_ms, rtt_max_ms
FROM reporting.line_steps(reporting.tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo()) AS step
LEFT JOIN measured ON measured.at = step.at
WHERE EXISTS (SELECT FROM measured)
ORDER BY 1

-- The interval of the one-way delay of each direction, by STAMP tests, ms, and its middle where both are narrower than a
-- quarter of the RTT, since in a wider one a change of the other direction moves the middle: a row per cycle up to two
-- days, beyond per hour, beyond 83 days per day. Where cycles are missing for more than twice their interval a row
-- without figures makes a gap. Cycles that are no longer kept are shown by the hour.
WITH cycle AS (
    SELECT
        *,
        LEAD(measured_at) OVER (ORDER BY measured_at) AS next_at
    FROM reporting.direction_cycle
    WHERE $__timeTo()::timestamptz - $__timeFrom()::timestamptz <= INTERVAL '2 days'
        AND $__timeFilter(measured_at)
        AND path_id = NULLIF(${path:sqlstring}, '')::integer
        AND outcome = 'measured' AND NOT during_test
),
usual AS (
    SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY next_at - measured_at) AS spacing
    FROM cycle
),
summary AS (
    SELECT *
    FROM reporting.direction
    WHERE tier = reporting.tier($__timeFrom(), $__timeTo())
        AND at >= reporting.start_of(reporting.tier($__timeFrom(), $__timeTo()), $__timeFrom())
        AND at < $__timeTo()::timestamptz
        AND path_id = NULLIF(${path:sqlstring}, '')::integer
        AND NOT EXISTS (SELECT FROM cycle)
),
measured AS (
    SELECT measured_at AS at, forward_delay_lo_ms, forward_delay_hi_ms, reverse_delay_lo_ms, reverse_delay_hi_ms
    FROM cycle
    UNION ALL
    SELECT measured_at + spacing, NULL, NULL, NULL, NULL
    FROM cycle
    CROSS JOIN usual
    WHERE next_at - measured_at > 2 * spacing
    UNION ALL
    SELECT step.drawn_at, forward_delay_lo_ms, forward_delay_hi_ms, reverse_delay_lo_ms, reverse_delay_hi_ms
    FROM reporting.line_steps(reporting.tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo()) AS step
    LEFT JOIN summary ON summary.at = step.at
    WHERE EXISTS (SELECT FROM summary)
),
bounded AS (
    SELECT
        *,
        -- Either sum is the RTT, but for bounds that were raised to 0.
        GREATEST(forward_delay_hi_ms - forward_delay_lo_ms, reverse_delay_hi_ms - reverse_delay_lo_ms) < LEAST(
            forward_delay_lo_ms + reverse_delay_hi_ms, forward_delay_hi_ms + reverse_delay_lo_ms
        ) / 4 AS is_narrow
    FROM measured
)
SELECT
    at AS "time",
    forward_delay_lo_ms AS "Forward, lower bound",
    CASE WHEN is_narrow THEN (forward_delay_lo_ms + forward_delay_hi_ms) / 2 END AS "Forward",
    forward_delay_hi_ms AS "Forward, upper bound",
    reverse_delay_lo_ms AS "Reverse, lower bound",
    CASE WHEN is_narrow THEN (reverse_delay_lo_ms + reverse_delay_hi_ms) / 2 END AS "Reverse",
    reverse_delay_hi_ms AS "Reverse, upper bound"
FROM bounded
ORDER BY 1

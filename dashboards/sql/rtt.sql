-- One row per hour that the period touches, or a day beyond 83 days: quantiles of all its round-trip times, ms; null
-- where none came back or nothing was measured.
WITH measured AS (
    SELECT *
    FROM reporting.ping
    WHERE tier = reporting.tier($__timeFrom(), $__timeTo())
        AND at >= reporting.start_of(reporting.tier($__timeFrom(), $__timeTo()), $__timeFrom())
        AND at < $__timeTo()::timestamptz
        AND path_id = NULLIF(${path:sqlstring}, '')::integer
        AND packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
)
SELECT
    step.at AS "time",
    rtt_min_ms AS "Minimum",
    rtt_p25_ms AS "25%",
    rtt_median_ms AS "Median",
    rtt_p75_ms AS "75%",
    rtt_p95_ms AS "95%",
    rtt_max_ms AS "Maximum"
FROM reporting.steps(reporting.tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo()) AS step
LEFT JOIN measured ON measured.at = step.at
WHERE EXISTS (SELECT FROM measured)
ORDER BY step.at

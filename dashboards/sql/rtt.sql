-- One row an hour that the period touches: quantiles of all round-trip times of the hour, ms; null when none came back.
SELECT
    hour AS "time",
    rtt_min_ms AS "Minimum",
    rtt_p25_ms AS "25%",
    rtt_median_ms AS "Median",
    rtt_p75_ms AS "75%",
    rtt_p95_ms AS "95%",
    rtt_max_ms AS "Maximum"
FROM burst_hour
WHERE path_id = NULLIF(${path:sqlstring}, '')::integer
    AND packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
    AND hour > $__timeFrom()::timestamptz - INTERVAL '1 hour' AND hour < $__timeTo()::timestamptz
ORDER BY hour

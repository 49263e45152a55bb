-- One row per request-response run of the chosen path outside of throughput tests: median and 95th percentile of the
-- latency of its transactions.
SELECT
    measured_at AS "time",
    median_ms AS "Median",
    p95_ms AS "95th percentile"
FROM reporting.request_response
WHERE path_id = NULLIF(${path:sqlstring}, '')::integer
    AND $__timeFilter(measured_at)
    AND median_ms IS NOT NULL AND NOT during_test
ORDER BY measured_at

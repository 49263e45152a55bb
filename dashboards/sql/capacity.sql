-- One row per capacity measurement with a result: the bottleneck capacity of the path, in either direction,
-- bit/s. Measurements during a throughput test are excluded.
SELECT
    measured_at AS "time",
    capacity_bps AS "Capacity"
FROM reporting.capacity
WHERE path_id = NULLIF(${path:sqlstring}, '')::integer
    AND $__timeFilter(measured_at)
    AND capacity_bps IS NOT NULL
    AND NOT during_test
ORDER BY measured_at

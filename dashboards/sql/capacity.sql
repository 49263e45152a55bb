-- One row a capacity measurement that gave a result: the narrowest link of the path, there or back, bit/s. What was
-- measured during a throughput test of ours is left out.
SELECT
    measured_at AS "time",
    capacity_bps AS "Capacity"
FROM reporting.capacity
WHERE path_id = NULLIF(${path:sqlstring}, '')::integer
    AND $__timeFilter(measured_at)
    AND capacity_bps IS NOT NULL
    AND NOT during_test
ORDER BY measured_at

-- One row per throughput test with a result, bit/s. Failed tests are in the table of tests.
SELECT
    measured_at AS "time",
    throughput_bps AS "Measured"
FROM reporting.throughput_test
WHERE path_id = NULLIF(${path:sqlstring}, '')::integer
    AND $__timeFilter(measured_at)
    AND throughput_bps IS NOT NULL
ORDER BY measured_at

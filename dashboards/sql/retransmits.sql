-- One row per throughput test with a count of retransmitted segments.
SELECT
    measured_at AS "time",
    retransmits::float8 AS "Retransmits"
FROM reporting.throughput_test
WHERE path_id = NULLIF(${path:sqlstring}, '')::integer
    AND $__timeFilter(measured_at)
    AND retransmits IS NOT NULL
ORDER BY measured_at

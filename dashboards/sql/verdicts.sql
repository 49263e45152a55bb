-- One row per verdict: the throughput tests of the period that it limited, and their paths.
SELECT
    verdict AS "Limited by",
    COUNT(*)::float8 AS "Tests",
    COUNT(DISTINCT path_id)::float8 AS "Paths"
FROM reporting.throughput_test
INNER JOIN reporting.path USING (path_id)
WHERE $__timeFilter(measured_at)
    AND verdict IS NOT NULL
    AND (${group:sqlstring} IN ('', '*') OR (
        source IN (SELECT site FROM reporting.site_group WHERE group_name = ${group:sqlstring})
        AND destination IN (SELECT site FROM reporting.site_group WHERE group_name = ${group:sqlstring})
    ))
GROUP BY verdict
ORDER BY "Tests" DESC, verdict

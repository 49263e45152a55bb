-- One row per hour that the period touches (a day beyond two days, a month beyond 92): measured throughput
-- tests, failed tests, and planned slots without a test, those up to the last whole hour, also where nothing was
-- delivered.
WITH pooled AS (
    SELECT
        throughput.at,
        SUM(tests_measured) AS measured,
        SUM(tests - tests_measured) AS failed
    FROM reporting.throughput
    INNER JOIN reporting.path USING (path_id)
    WHERE tier = reporting.pooled_tier($__timeFrom(), $__timeTo())
        AND at >= reporting.start_of(reporting.pooled_tier($__timeFrom(), $__timeTo()), $__timeFrom())
        AND at < $__timeTo()::timestamptz
    AND (${group:sqlstring} IN ('', '*') OR (
        source IN (SELECT site FROM reporting.site_group WHERE group_name = ${group:sqlstring})
        AND destination IN (SELECT site FROM reporting.site_group WHERE group_name = ${group:sqlstring})
    ))
    GROUP BY throughput.at
),
of_path AS (
    SELECT whole.at, whole.path_id, GREATEST(0, SUM(whole.slots_planned) - SUM(whole.tests)) AS untried
    FROM reporting.throughput_in_whole_hours(
        reporting.pooled_tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo(), now()
    ) AS whole
    INNER JOIN reporting.path USING (path_id)
    WHERE ${group:sqlstring} IN ('', '*') OR (
        source IN (SELECT site FROM reporting.site_group WHERE group_name = ${group:sqlstring})
        AND destination IN (SELECT site FROM reporting.site_group WHERE group_name = ${group:sqlstring})
    )
    GROUP BY whole.at, whole.path_id
),
due AS (
    SELECT at, SUM(untried) AS untried
    FROM of_path
    GROUP BY at
)
SELECT
    reporting.bar_at(
        step.at, reporting.pooled_tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo()
    ) AS "time",
    measured::float8 AS "Measured",
    failed::float8 AS "Failed",
    untried::float8 AS "No test"
FROM reporting.steps(reporting.pooled_tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo()) AS step
LEFT JOIN pooled ON pooled.at = step.at
LEFT JOIN due ON due.at = step.at
WHERE EXISTS (SELECT FROM pooled) OR EXISTS (SELECT FROM due)
ORDER BY step.at

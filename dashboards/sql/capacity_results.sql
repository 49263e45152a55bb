-- One row per capacity measurement of the chosen path in the period, newest first, at most 200, those without a result
-- too.
SELECT
    measured_at AS "time",
    test AS "Test",
    outcome AS "Outcome",
    verdict AS "Verdict",
    capacity_bps AS "Capacity",
    capacity_low_bps AS "Lower bound",
    capacity_high_bps AS "Upper bound",
    method AS "Method",
    CASE WHEN during_test THEN 'yes' ELSE 'no' END AS "During test",
    detail AS "Reason"
FROM reporting.capacity
WHERE path_id = NULLIF(${path:sqlstring}, '')::integer
    AND $__timeFilter(measured_at)
ORDER BY measured_at DESC
LIMIT 200

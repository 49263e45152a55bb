-- One row per aggregate test in the period, newest first, at most 200. Without the rate of every member there is no sum.
SELECT
    starts_at AS "time",
    test AS "Test",
    shape AS "Shape",
    state AS "State",
    measured AS "Members measured",
    members AS "Members",
    sum_bps AS "Sum",
    fairness AS "Fairness (Jain)"
FROM reporting.aggregate
WHERE $__timeFilter(starts_at)
ORDER BY starts_at DESC
LIMIT 200

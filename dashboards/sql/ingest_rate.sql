-- One row for each interval of the panel with a sample of the centre: results a second that came and were stored, and
-- that were refused, the maximum rate of a minute in it.
SELECT
    $__timeGroupAlias(at, $__interval),
    MAX(accepted_per_s) AS "Stored",
    MAX(refused_per_s) AS "Rejected"
FROM reporting.centre
WHERE $__timeFilter(at)
GROUP BY 1
ORDER BY 1

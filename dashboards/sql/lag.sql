-- One row for each interval of the panel with a sample of the centre, s: how old the newest result was, and how long the
-- longest waiting hour had waited for its summary; the greatest of each.
SELECT
    $__timeGroupAlias(at, $__interval),
    MAX(behind_s) AS "Newest result",
    MAX(waited_s) AS "Summary of an hour"
FROM reporting.centre
WHERE $__timeFilter(at)
GROUP BY 1
ORDER BY 1

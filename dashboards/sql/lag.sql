-- One row for each interval of the panel with a sample of the centre, s: the age of the latest result, and how long
-- the oldest pending hour had waited for its rollup; the maximum of each.
SELECT
    $__timeGroupAlias(at, $__interval),
    MAX(behind_s) AS "Latest result",
    MAX(waited_s) AS "Oldest pending rollup"
FROM reporting.centre
WHERE $__timeFilter(at)
GROUP BY 1
ORDER BY 1

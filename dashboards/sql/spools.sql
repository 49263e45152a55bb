-- One row for each interval of the panel with a sample of the centre: results in the spools of all agents, the most.
SELECT
    $__timeGroupAlias(at, $__interval),
    MAX(queued)::float8 AS "Results"
FROM reporting.centre
WHERE $__timeFilter(at)
GROUP BY 1
ORDER BY 1

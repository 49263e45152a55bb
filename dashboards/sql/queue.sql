-- One row for each interval of the panel with a sample of the centre: tasks in Redis, and hours that wait for their
-- summary; the most of each. Tasks are null while Redis is away.
SELECT
    $__timeGroupAlias(at, $__interval),
    MAX(queue_length)::float8 AS "Tasks",
    MAX(hours_waiting)::float8 AS "Pending rollups"
FROM reporting.centre
WHERE $__timeFilter(at)
GROUP BY 1
ORDER BY 1

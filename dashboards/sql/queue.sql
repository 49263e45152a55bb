-- One row for each interval of the panel with a sample of the centre: tasks in Redis, and hours that wait for their
-- summary, the oldest for more than a minute; the most of each. Tasks are null while Redis is away.
SELECT
    $__timeGroupAlias(at, $__interval),
    MAX(queue_length)::float8 AS "Tasks",
    MAX(CASE WHEN waited_s > 60 THEN hours_waiting ELSE 0 END)::float8 AS "Overdue rollups"
FROM reporting.centre
WHERE $__timeFilter(at)
GROUP BY 1
ORDER BY 1

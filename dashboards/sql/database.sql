-- One row for each interval of the panel with a sample of the centre: bytes that the database takes on disk.
SELECT
    $__timeGroupAlias(at, $__interval),
    MAX(database_bytes)::float8 AS "Database"
FROM reporting.centre
WHERE $__timeFilter(at)
GROUP BY 1
ORDER BY 1

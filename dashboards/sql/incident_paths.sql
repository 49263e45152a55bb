-- The 20 paths that were found by most incidents of the period, with the rules that found them.
SELECT
    path.source AS "From",
    path.destination AS "To",
    path.name AS "Path",
    path.family::text AS "Family",
    path.path_id::text AS "Number",
    COUNT(DISTINCT found.incident_id)::float8 AS "Incidents",
    STRING_AGG(DISTINCT found.rule, ', ') AS "Rules"
FROM reporting.incident_path AS found
INNER JOIN reporting.incident USING (incident_id)
INNER JOIN reporting.path USING (path_id)
WHERE incident.opened_at < $__timeTo()::timestamptz
    AND (incident.closed_at IS NULL OR incident.closed_at > $__timeFrom()::timestamptz)
GROUP BY path.source, path.destination, path.name, path.family, path.path_id
ORDER BY "Incidents" DESC, path.path_id
LIMIT 20

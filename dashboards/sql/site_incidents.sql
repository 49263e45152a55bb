-- One row per incident with a path of the chosen site that lasted at any moment of the period, newest first, at most
-- 100.
SELECT
    incident.opened_at AS "Detected",
    incident.closed_at AS "Resolved",
    incident.title AS "Title",
    incident.incident_id::text AS "Number"
FROM reporting.incident
WHERE incident.opened_at < $__timeTo()::timestamptz
    AND (incident.closed_at IS NULL OR incident.closed_at > $__timeFrom()::timestamptz)
    AND incident_id IN (
        SELECT incident_id
        FROM reporting.incident_path
        INNER JOIN reporting.path USING (path_id)
        WHERE ${site:sqlstring} IN (path.source, path.destination)
    )
ORDER BY incident.opened_at DESC
LIMIT 100

-- Incidents with a path of the chosen site that lasted at any moment of the period, each from opening to resolution.
SELECT
    incident.opened_at AS "time",
    COALESCE(incident.closed_at, LEAST($__timeTo()::timestamptz, now())) AS "timeEnd",
    incident.title AS "text",
    incident.rule || ',' || incident.state AS "tags"
FROM reporting.incident
WHERE incident.opened_at < $__timeTo()::timestamptz
    AND (incident.closed_at IS NULL OR incident.closed_at > $__timeFrom()::timestamptz)
    AND incident_id IN (
        SELECT incident_id
        FROM reporting.incident_path
        INNER JOIN reporting.path USING (path_id)
        WHERE ${site:sqlstring} IN (path.source, path.destination)
    )
ORDER BY incident.opened_at

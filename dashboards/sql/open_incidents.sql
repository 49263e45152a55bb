-- One row per incident that is open now, newest first, with how many paths it explains.
SELECT
    incident.opened_at AS "Detected",
    incident.severity AS "Severity",
    incident.state AS "State",
    incident.title AS "Title",
    (SELECT COUNT(DISTINCT path_id) FROM reporting.incident_path AS found
     WHERE found.incident_id = incident.incident_id)::float8 AS "Paths",
    incident.incident_id::text AS "Number"
FROM reporting.incident
WHERE incident.closed_at IS NULL
ORDER BY incident.opened_at DESC

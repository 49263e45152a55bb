-- One row per open incident: the rule that heads it, its severity and its cause, which are labels, and how many paths
-- it explains.
SELECT
    incident.rule,
    incident.severity,
    incident.cause,
    (SELECT COUNT(DISTINCT path_id) FROM reporting.incident_path AS found
     WHERE found.incident_id = incident.incident_id)::float8 AS paths
FROM reporting.incident
WHERE incident.closed_at IS NULL
ORDER BY incident.opened_at

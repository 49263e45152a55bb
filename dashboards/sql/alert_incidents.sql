-- One row per open incident, and how many paths it explains. Its labels never change while it lasts, or Grafana would
-- notify of it twice: its number, its page, and what it was opened for.
SELECT
    incident.incident_id::text AS incident,
    COALESCE(NULLIF(current_setting('soundings.public_url', true), ''), 'http://localhost:8000')
    || '/incidents/' || incident.incident_id || '/' AS page,
    COALESCE((
        SELECT first.sentence FROM reporting.incident_path AS first
        WHERE first.incident_id = incident.incident_id
        ORDER BY first.added_at, first.path_id, first.rule
        LIMIT 1
    ), '') AS opening,
    (SELECT COUNT(DISTINCT path_id) FROM reporting.incident_path AS found
     WHERE found.incident_id = incident.incident_id)::float8 AS paths
FROM reporting.incident
WHERE incident.closed_at IS NULL
ORDER BY incident.opened_at

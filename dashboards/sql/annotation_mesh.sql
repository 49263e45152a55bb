-- All incidents that lasted at any moment of the period, each from opening to resolution, the newest 200.
SELECT
    incident.opened_at AS "time",
    COALESCE(incident.closed_at, LEAST($__timeTo()::timestamptz, now())) AS "timeEnd",
    incident.title AS "text",
    incident.rule || ',' || incident.state AS "tags"
FROM reporting.incident
WHERE incident.opened_at < $__timeTo()::timestamptz
    AND (incident.closed_at IS NULL OR incident.closed_at > $__timeFrom()::timestamptz)
ORDER BY incident.opened_at DESC
LIMIT 200

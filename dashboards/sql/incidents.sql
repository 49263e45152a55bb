-- One row per incident that lasted at any moment of the period, newest first, at most 500; how long it lasted from its
-- onset to its last bad burst, or has so far, in seconds: the duration that pages, messages and reports have.
SELECT
    incident.opened_at AS "Detected",
    incident.closed_at AS "Resolved",
    EXTRACT(EPOCH FROM COALESCE(incident.ended_at, now()) - incident.began_at)::float8 AS "Duration",
    incident.severity AS "Severity",
    incident.title AS "Title",
    COALESCE(NULLIF(incident.closing, ''), incident.correction) AS "Resolution",
    incident.incident_id::text AS "Number"
FROM reporting.incident
WHERE incident.opened_at < $__timeTo()::timestamptz
    AND (incident.closed_at IS NULL OR incident.closed_at > $__timeFrom()::timestamptz)
ORDER BY incident.opened_at DESC
LIMIT 500

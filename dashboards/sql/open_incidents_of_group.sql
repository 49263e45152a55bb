-- One row per incident that is open now on a path of the selected group and family, newest first, with how many paths it
-- explains.
SELECT
    incident.opened_at AS "Detected",
    incident.severity AS "Severity",
    incident.state AS "State",
    incident.title AS "Title",
    (SELECT COUNT(DISTINCT path_id) FROM reporting.incident_path AS found
     WHERE found.incident_id = incident.incident_id)::float8 AS "Paths",
    incident.incident_id::text AS "Number"
FROM reporting.incident
WHERE incident.closed_at IS NULL AND incident.incident_id IN (
    SELECT found.incident_id
    FROM reporting.incident_path AS found
    INNER JOIN reporting.path USING (path_id)
    WHERE NOT is_retired
    AND family = NULLIF(${family:sqlstring}, '')::integer
    AND (${group:sqlstring} IN ('', '*') OR (
        source IN (SELECT site FROM reporting.site_group WHERE group_name = ${group:sqlstring})
        AND destination IN (SELECT site FROM reporting.site_group WHERE group_name = ${group:sqlstring})
    ))
)
ORDER BY incident.opened_at DESC

-- One row per site in use: where it is, the loss of all paths from and to it in the period together, and the open
-- incidents of these paths.
WITH chosen AS (
    SELECT source, destination, path_id
    FROM reporting.path
    WHERE NOT is_retired
    AND family = NULLIF(${family:sqlstring}, '')::integer
    AND (${group:sqlstring} IN ('', '*') OR (
        source IN (SELECT site FROM reporting.site_group WHERE group_name = ${group:sqlstring})
        AND destination IN (SELECT site FROM reporting.site_group WHERE group_name = ${group:sqlstring})
    ))
),
pooled AS (
    SELECT path_id, SUM(sent) AS sent, SUM(received) AS received
    FROM reporting.ping_between($__timeFrom(), $__timeTo())
    WHERE packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
        AND path_id IN (SELECT path_id FROM chosen)
    GROUP BY path_id
),
open_incident AS (
    SELECT incident_path.path_id, incident.incident_id
    FROM reporting.incident
    INNER JOIN reporting.incident_path USING (incident_id)
    WHERE incident.closed_at IS NULL AND NOT incident_path.is_over
)
SELECT
    site.name AS "Site",
    site.title AS "Name",
    site.latitude_deg AS "Latitude",
    site.longitude_deg AS "Longitude",
    SUM(pooled.sent - pooled.received)::float8 / NULLIF(SUM(pooled.sent), 0) AS "Loss",
    (
        SELECT COUNT(DISTINCT open_incident.incident_id)
        FROM open_incident
        INNER JOIN chosen AS affected USING (path_id)
        WHERE site.name IN (affected.source, affected.destination)
    )::float8 AS "Open incidents"
FROM reporting.site
INNER JOIN chosen ON site.name IN (chosen.source, chosen.destination)
LEFT JOIN pooled ON pooled.path_id = chosen.path_id
GROUP BY site.name, site.title, site.latitude_deg, site.longitude_deg
ORDER BY site.name

-- One row for each site that paths begin at and each that paths end at: the {figure}, NaN where there is no path.
WITH pooled AS (
    SELECT path_id, {pooled}
    FROM reporting.{view}_between($__timeFrom(), $__timeTo()){of_size}
    GROUP BY path_id
),
chosen AS (
    SELECT source, destination, path_id
    FROM reporting.path
    WHERE NOT is_retired
    AND family = NULLIF(${family:sqlstring}, '')::integer
    AND (${group:sqlstring} IN ('', '*') OR (
        source IN (SELECT site FROM reporting.site_group WHERE group_name = ${group:sqlstring})
        AND destination IN (SELECT site FROM reporting.site_group WHERE group_name = ${group:sqlstring})
    ))
)
SELECT
    source.name AS "From",
    destination.name AS "To",
    CASE WHEN COUNT(chosen.path_id) = 0 THEN 'NaN' ELSE {worst} END AS "{column}"
FROM (SELECT DISTINCT source AS name FROM chosen) AS source
CROSS JOIN (SELECT DISTINCT destination AS name FROM chosen) AS destination
LEFT JOIN chosen ON chosen.source = source.name AND chosen.destination = destination.name
LEFT JOIN pooled ON pooled.path_id = chosen.path_id
GROUP BY source.name, destination.name
ORDER BY source.name, destination.name

-- One row for each site that paths begin at and each that paths end at: the number of the condition now of the worst path
-- between the two, in any packet size, null where it is not known yet; NaN where there is no path, -1 on the diagonal.
-- Beyond {most_sites} sites the worst come first.
WITH chosen AS (
    SELECT path.source, path.destination, path.path_id, ARRAY_POSITION(ARRAY[{conditions}], present.condition) - 1 AS worst
    FROM reporting.path
    LEFT JOIN reporting.path_condition AS present USING (path_id)
    WHERE NOT path.is_retired
    AND path.family = NULLIF(${family:sqlstring}, '')::integer
    AND (${group:sqlstring} IN ('', '*') OR (
        path.source IN (SELECT site FROM reporting.site_group WHERE group_name = ${group:sqlstring})
        AND path.destination IN (SELECT site FROM reporting.site_group WHERE group_name = ${group:sqlstring})
    ))
),
cell AS (
    SELECT source.name AS source, destination.name AS destination, COUNT(chosen.path_id) AS paths, MAX(worst) AS worst
    FROM (SELECT DISTINCT source AS name FROM chosen) AS source
    CROSS JOIN (SELECT DISTINCT destination AS name FROM chosen) AS destination
    LEFT JOIN chosen ON chosen.source = source.name AND chosen.destination = destination.name
    GROUP BY source.name, destination.name
)
SELECT
    source AS "From",
    destination AS "To",
    CASE WHEN paths > 0 THEN worst::float8 WHEN source = destination THEN -1 ELSE 'NaN' END AS "Condition"
FROM cell
ORDER BY
    CASE WHEN (SELECT COUNT(DISTINCT source) FROM cell) > {most_sites} THEN MAX(worst) OVER (PARTITION BY source) END
        DESC NULLS LAST,
    source,
    CASE WHEN (SELECT COUNT(DISTINCT source) FROM cell) > {most_sites} THEN MAX(worst) OVER (PARTITION BY destination) END
        DESC NULLS LAST,
    destination

-- One row for each site that paths begin at and each that paths end at: the {figure}; NaN where there is no path, -1 on the
-- diagonal. Beyond {most_sites} sites the worst come first.
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
),
cell AS (
    SELECT source.name AS source, destination.name AS destination, COUNT(chosen.path_id) AS paths, {worst} AS worst
    FROM (SELECT DISTINCT source AS name FROM chosen) AS source
    CROSS JOIN (SELECT DISTINCT destination AS name FROM chosen) AS destination
    LEFT JOIN chosen ON chosen.source = source.name AND chosen.destination = destination.name
    LEFT JOIN pooled ON pooled.path_id = chosen.path_id
    GROUP BY source.name, destination.name
)
SELECT
    source AS "From",
    destination AS "To",
    CASE WHEN paths > 0 THEN worst WHEN source = destination THEN -1 ELSE 'NaN' END AS "{column}"
FROM cell
ORDER BY
    CASE WHEN (SELECT COUNT(DISTINCT source) FROM cell) > {most_sites} THEN MAX({badness}) OVER (PARTITION BY source) END
        DESC NULLS LAST,
    source,
    CASE WHEN (SELECT COUNT(DISTINCT source) FROM cell) > {most_sites} THEN
        MAX({badness}) OVER (PARTITION BY destination)
    END DESC NULLS LAST,
    destination

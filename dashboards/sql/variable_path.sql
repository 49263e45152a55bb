-- Paths between the two chosen sites in the chosen family: hosts as text, the path's id as value. Paths in use first.
SELECT
    name || ' (IPv' || family || ')' || CASE WHEN is_retired THEN ', retired' ELSE '' END AS __text,
    path_id::text AS __value
FROM reporting.path
WHERE source = ${source:sqlstring} AND destination = ${destination:sqlstring}
    AND family = NULLIF(${family:sqlstring}, '')::integer
ORDER BY is_retired, name

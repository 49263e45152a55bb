-- Sites that a path from the chosen source ends at: title as text, name as value, retired sites last.
SELECT
    title || CASE WHEN is_retired THEN ' (retired)' ELSE '' END AS __text,
    name AS __value
FROM reporting.site
WHERE EXISTS (SELECT FROM reporting.path WHERE source = ${source:sqlstring} AND destination = site.name)
ORDER BY is_retired, title

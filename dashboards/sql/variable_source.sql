-- Sites that paths begin at: title as text, name as value. Retired sites come last, since their history stays.
SELECT
    title || CASE WHEN is_retired THEN ' (retired)' ELSE '' END AS __text,
    name AS __value
FROM reporting.site
WHERE EXISTS (SELECT FROM reporting.path WHERE source = site.name)
ORDER BY is_retired, title

-- All sites: title as text, name as value. Retired sites come last, since their history stays.
SELECT
    title || CASE WHEN is_retired THEN ' (retired)' ELSE '' END AS __text,
    name AS __value
FROM reporting.site
ORDER BY is_retired, title

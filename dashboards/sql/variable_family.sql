-- Address families that there are paths in: IPv4 first.
SELECT 'IPv' || family AS __text, family::text AS __value
FROM reporting.path
WHERE NOT is_retired
GROUP BY family
ORDER BY family

-- Address families of the paths between the two chosen sites: those in use first, IPv4 first.
SELECT 'IPv' || family AS __text, family::text AS __value
FROM reporting.path
WHERE source = ${source:sqlstring} AND destination = ${destination:sqlstring}
GROUP BY family
ORDER BY bool_and(is_retired), family

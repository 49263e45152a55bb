-- Groups of the mesh by name, and * for all paths, which comes first.
SELECT 'All' AS __text, '*' AS __value
UNION ALL
(SELECT DISTINCT group_name, group_name FROM reporting.site_group ORDER BY 1)

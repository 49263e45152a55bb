-- Groups of the mesh by name, and * for all paths, which comes first. A group of all sites would be the same again.
SELECT 'All' AS __text, '*' AS __value
UNION ALL
(
    SELECT group_name, group_name
    FROM reporting.site_group
    GROUP BY group_name
    HAVING COUNT(DISTINCT site) < (SELECT COUNT(*) FROM reporting.site WHERE NOT is_retired)
    ORDER BY 1
)

-- For each site with an agent, the changes of route on the paths from there since a time. Columns: site, changes.
SELECT site.name AS site, count(later.id) AS changes
FROM site
INNER JOIN host ON host.site_id = site.id
INNER JOIN path ON path.source_id = host.id
LEFT JOIN (
    path_route AS later
    INNER JOIN path_route AS earlier
        ON earlier.path_id = later.path_id AND earlier.protocol = later.protocol AND earlier.flow = later.flow
        AND earlier.until = later.since
) ON later.path_id = path.id AND later.since >= %(since)s::timestamptz
WHERE site.retired_at IS NULL
    AND EXISTS (SELECT FROM path_route AS any_period WHERE any_period.path_id = path.id)
GROUP BY site.name
ORDER BY site.name

-- The ids of the paths in maintenance: of these paths, from or to these sites, within these groups, or all.
SELECT path.id
FROM path
INNER JOIN host AS source ON source.id = path.source_id
INNER JOIN host AS destination ON destination.id = path.destination_id
WHERE
    %(quiet)s
    AND (
        %(quiet_all)s OR path.id = ANY(%(quiet_paths)s::integer[])
        OR source.site_id = ANY(%(quiet_sites)s::integer[]) OR destination.site_id = ANY(%(quiet_sites)s::integer[])
        OR EXISTS (
            SELECT FROM site_group_sites AS near
            INNER JOIN site_group_sites AS far ON far.group_id = near.group_id
            INNER JOIN site_group ON site_group.id = near.group_id AND site_group.retired_at IS NULL
            WHERE
                near.group_id = ANY(%(quiet_groups)s::integer[])
                AND near.site_id = source.site_id AND far.site_id = destination.site_id
        )
    )

-- Those of these paths that there are, retired ones too: path_id, the site that measures it, its address family.
SELECT path.id AS path_id, host.site_id, path.family
FROM path
INNER JOIN host ON host.id = path.source_id
WHERE path.id = ANY(%(path_ids)s::integer[])

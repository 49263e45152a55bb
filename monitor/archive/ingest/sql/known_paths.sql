-- Those of these paths that there are, retired ones too: path_id, the site where it starts, its address family, the site
-- where it ends.
SELECT path.id AS path_id, source.site_id, path.family, destination.site_id AS far_site_id
FROM path
INNER JOIN host AS source ON source.id = path.source_id
INNER JOIN host AS destination ON destination.id = path.destination_id
WHERE path.id = ANY(%(path_ids)s::integer[])

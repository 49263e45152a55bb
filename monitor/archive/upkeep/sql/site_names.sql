-- The names of these sites, by name: site_id, name.
SELECT id AS site_id, name FROM site WHERE id = ANY(%(site_ids)s::integer[]) ORDER BY name

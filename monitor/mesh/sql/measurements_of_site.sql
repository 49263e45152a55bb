-- The measurements in use of these kinds whose {end} is a host of a site: a row for each test, in the order of the names,
-- with its paths in the order of their identifiers.
SELECT
    test.name, test.kind, test.every_s, test.parameters,
    array_agg(path.id ORDER BY path.id) AS path_ids,
    array_agg(path.source_id ORDER BY path.id) AS source_ids,
    array_agg(path.destination_id ORDER BY path.id) AS destination_ids,
    array_agg(path.family ORDER BY path.id) AS families
FROM host
INNER JOIN path ON path.{end}_id = host.id
INNER JOIN measurement ON measurement.path_id = path.id
INNER JOIN test ON test.id = measurement.test_id
WHERE host.site_id = %(site_id)s AND measurement.retired_at IS NULL AND test.kind = ANY(%(kinds)s::text[])
GROUP BY test.id
ORDER BY test.name

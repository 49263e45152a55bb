-- One row for each pair with a path in use that a test of this kind measures: source, destination, its paths.
SELECT source, destination, array_agg(place.path_id ORDER BY place.path_id) AS path_ids
FROM (
{places}
) AS place
INNER JOIN path AS used ON used.id = place.path_id AND used.retired_at IS NULL
WHERE EXISTS (
    SELECT FROM measurement
    INNER JOIN test ON test.id = measurement.test_id
    WHERE measurement.path_id = place.path_id AND measurement.retired_at IS NULL AND test.kind = %(kind)s
)
GROUP BY source, destination

-- One row for each pair with a path in use that a test of these kinds measures: source, destination, its paths.
SELECT source, destination, array_agg(place.path_id ORDER BY place.path_id) AS path_ids
FROM (
{places}
) AS place
INNER JOIN path AS used ON used.id = place.path_id AND used.retired_at IS NULL
-- IS TRUE keeps it a hashed subquery: while the statistics of a mesh that has just been applied are old, a join of the two
-- can become one loop in the other, minutes for 14,000 paths.
WHERE (place.path_id IN (
    SELECT measurement.path_id
    FROM measurement
    INNER JOIN test ON test.id = measurement.test_id
    WHERE measurement.retired_at IS NULL AND test.kind = ANY(%(kinds)s::text[])
)) IS TRUE
GROUP BY source, destination

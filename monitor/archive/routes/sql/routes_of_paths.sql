-- All routes of these paths, by number.
SELECT path_id, id, number, first_at, hops, learned_at, reached_at
FROM route
WHERE path_id = ANY(%(path_ids)s::integer[])
ORDER BY path_id, number

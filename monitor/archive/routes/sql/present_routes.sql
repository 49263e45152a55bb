-- The present period of each flow of these paths, with what it showed of its route.
SELECT
    present.path_id, present.protocol, present.flow, present.id, present.since, present.last_at,
    present.learned_at, present.reached_at,
    route.id, route.number, route.first_at, route.hops, route.learned_at, route.reached_at
FROM path_route AS present
INNER JOIN route ON route.id = present.route_id
WHERE present.path_id = ANY(%(path_ids)s::integer[]) AND present.until IS NULL

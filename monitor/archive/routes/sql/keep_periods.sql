-- Store these periods in their order; a stored period of the same flow and begin is changed.
INSERT INTO path_route (path_id, protocol, flow, since, route_id, last_at, until, learned_at, reached_at)
SELECT path_id, protocol, flow, since, route_id, last_at, until, learned_at::timestamptz[], reached_at
FROM unnest(
    %(path_ids)s::integer[], %(protocols)s::text[], %(flows)s::bigint[], %(since)s::timestamptz[],
    %(route_ids)s::bigint[], %(last_at)s::timestamptz[], %(until)s::timestamptz[], %(learned_at)s::text[],
    %(reached_at)s::timestamptz[]
) AS kept (path_id, protocol, flow, since, route_id, last_at, until, learned_at, reached_at)
ON CONFLICT (path_id, protocol, flow, since) DO UPDATE SET
    route_id = excluded.route_id, last_at = excluded.last_at, until = excluded.until,
    learned_at = excluded.learned_at, reached_at = excluded.reached_at

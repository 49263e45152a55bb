-- Store new routes; returns their identifiers, in order.
INSERT INTO route (path_id, number, first_at, hops, learned_at, reached_at)
SELECT path_id, number, first_at, hops::text[], learned_at::timestamptz[], reached_at
FROM unnest(
    %(path_ids)s::integer[], %(numbers)s::integer[], %(first_at)s::timestamptz[], %(hops)s::text[],
    %(learned_at)s::text[], %(reached_at)s::timestamptz[]
) AS added (path_id, number, first_at, hops, learned_at, reached_at)
RETURNING id

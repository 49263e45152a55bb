-- Change stored routes.
UPDATE route
SET
    number = changed.number, first_at = changed.first_at, hops = changed.hops::text[],
    learned_at = changed.learned_at::timestamptz[], reached_at = changed.reached_at
FROM unnest(
    %(ids)s::bigint[], %(numbers)s::integer[], %(first_at)s::timestamptz[], %(hops)s::text[],
    %(learned_at)s::text[], %(reached_at)s::timestamptz[]
) AS changed (id, number, first_at, hops, learned_at, reached_at)
WHERE route.id = changed.id

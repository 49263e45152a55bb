-- The addresses on the routes that a trace showed since a time, each once. Columns: address.
SELECT DISTINCT hop.address
FROM route
CROSS JOIN LATERAL unnest(route.hops) AS hop (address)
WHERE
    hop.address IS NOT NULL
    AND route.id IN (SELECT route_id FROM path_route WHERE last_at >= %(since)s::timestamptz)

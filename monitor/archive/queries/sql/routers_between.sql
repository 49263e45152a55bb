-- The addresses on the routes of the periods that overlap [since, until), each once. Columns: address.
SELECT DISTINCT hop.address
FROM route
CROSS JOIN LATERAL unnest(route.hops) AS hop (address)
WHERE
    hop.address IS NOT NULL
    AND route.id IN (
        SELECT route_id
        FROM path_route
        WHERE since < %(until)s::timestamptz AND (until IS NULL OR until > %(since)s::timestamptz)
    )

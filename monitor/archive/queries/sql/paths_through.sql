-- The periods that overlap [since, until) on a route with any of these addresses, with the first of them on the route, by
-- path and time. Columns: the fields of monitor.archive.queries.routes.periods.Passage.
SELECT {columns}
FROM (
    SELECT
        period.path_id, period.route_id, hop.ttl, hop.address, period.protocol, nullif(period.flow, -1) AS flow,
        period.since, period.last_at, period.until
    FROM route
    INNER JOIN path_route AS period ON period.route_id = route.id
    CROSS JOIN LATERAL (
        SELECT listed.ttl::integer AS ttl, listed.address
        FROM unnest(route.hops) WITH ORDINALITY AS listed (address, ttl)
        WHERE listed.address = ANY(%(addresses)s::text[])
        ORDER BY listed.ttl
        LIMIT 1
    ) AS hop
    WHERE
        route.hops && %(addresses)s::text[] AND period.since < %(until)s::timestamptz
        AND (period.until IS NULL OR period.until > %(since)s::timestamptz)
) AS passage
ORDER BY path_id, since, protocol, flow

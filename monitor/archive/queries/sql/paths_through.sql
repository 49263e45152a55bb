-- The periods that overlap [since, until) on a route with this address at any hop, by path and time.
-- Columns: the fields of monitor.archive.queries.routes.periods.Passage.
SELECT {columns}
FROM (
    SELECT
        period.path_id, period.route_id, array_position(route.hops, %(address)s::text) AS ttl, period.protocol,
        nullif(period.flow, -1) AS flow, period.since, period.last_at, period.until
    FROM route
    INNER JOIN path_route AS period ON period.route_id = route.id
    WHERE
        route.hops @> ARRAY[%(address)s::text] AND period.since < %(until)s::timestamptz
        AND (period.until IS NULL OR period.until > %(since)s::timestamptz)
) AS passage
ORDER BY path_id, since, protocol, flow

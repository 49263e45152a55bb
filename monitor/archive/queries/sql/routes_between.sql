-- The periods of these paths that overlap [since, until), by path, flow and time.
-- Columns: the fields of monitor.archive.queries.routes.periods.RoutePeriod.
SELECT {columns}
FROM (
    SELECT
        period.path_id, period.protocol, nullif(period.flow, -1) AS flow, period.since, period.last_at, period.until,
        period.route_id, route.number, route.hops, route.reached_at IS NOT NULL AS reached
    FROM path_route AS period
    INNER JOIN route ON route.id = period.route_id
    WHERE
        period.path_id = ANY(%(path_ids)s) AND period.since < %(until)s::timestamptz
        AND (period.until IS NULL OR period.until > %(since)s::timestamptz)
) AS period
ORDER BY path_id, protocol, flow NULLS FIRST, since

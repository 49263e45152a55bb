-- Of each of these paths the period at a moment; of several flows, that of the last trace before it.
-- Columns: the fields of monitor.archive.queries.routes.periods.RoutePeriod.
SELECT {columns}
FROM (
    SELECT DISTINCT ON (period.path_id)
        period.path_id, period.protocol, nullif(period.flow, -1) AS flow, period.since, period.last_at, period.until,
        period.route_id, route.number, route.hops, route.reached_at IS NOT NULL AS reached
    FROM path_route AS period
    INNER JOIN route ON route.id = period.route_id
    WHERE
        period.path_id = ANY(%(path_ids)s) AND period.since <= %(at)s::timestamptz
        AND (period.until IS NULL OR period.until > %(at)s::timestamptz)
    ORDER BY period.path_id, least(period.last_at, %(at)s::timestamptz) DESC, period.protocol, period.flow
) AS period

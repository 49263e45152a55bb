-- Routes by their identifiers.
-- Columns: the fields of monitor.archive.queries.routes.periods.StoredRoute.
SELECT {columns}
FROM (
    SELECT
        route.id, route.path_id, route.number, route.hops, route.reached_at IS NOT NULL AS reached, route.first_at, (
            SELECT max(period.last_at) FROM path_route AS period WHERE period.route_id = route.id
        ) AS last_at
    FROM route
    WHERE route.id = ANY(%(ids)s)
) AS route

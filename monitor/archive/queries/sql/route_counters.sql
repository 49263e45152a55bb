-- Of each of these paths that was ever traced: the newest trace on its route, the hops of that route where a trace
-- reached the destination, and the changes of route since a time. Columns: path_id, traced_at, hops, changes.
SELECT DISTINCT ON (period.path_id)
    period.path_id, period.last_at AS traced_at,
    CASE WHEN route.reached_at IS NOT NULL THEN cardinality(route.hops) END AS hops, (
        SELECT count(*)
        FROM path_route AS later
        INNER JOIN path_route AS earlier
            ON earlier.path_id = later.path_id AND earlier.protocol = later.protocol AND earlier.flow = later.flow
            AND earlier.until = later.since
        WHERE later.path_id = period.path_id AND later.since >= %(since)s::timestamptz
    ) AS changes
FROM path_route AS period
INNER JOIN route ON route.id = period.route_id
WHERE period.path_id = ANY(%(path_ids)s::integer[]) AND period.until IS NULL
ORDER BY period.path_id, period.last_at DESC, period.protocol, period.flow

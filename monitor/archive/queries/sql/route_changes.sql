-- The changes of route in [since, until), of these paths or of all (null), in order of time.
-- Columns: the fields of monitor.archive.queries.routes.periods.RouteChange.
SELECT {columns}
FROM (
    SELECT
        later.path_id, later.protocol, nullif(later.flow, -1) AS flow, earlier.last_at AS last_before_at,
        later.since AS at, earlier.route_id AS before_id, before.hops AS before_hops,
        before.reached_at IS NOT NULL AS before_reached, later.route_id AS after_id, after.hops AS after_hops,
        after.reached_at IS NOT NULL AS after_reached, first.until AS before_since, later.until AS after_until
    FROM path_route AS later
    INNER JOIN path_route AS earlier
        ON
            earlier.path_id = later.path_id AND earlier.protocol = later.protocol AND earlier.flow = later.flow
            AND earlier.until = later.since
    LEFT JOIN path_route AS first
        ON
            first.path_id = earlier.path_id AND first.protocol = earlier.protocol AND first.flow = earlier.flow
            AND first.until = earlier.since
    INNER JOIN route AS before ON before.id = earlier.route_id
    INNER JOIN route AS after ON after.id = later.route_id
    WHERE
        later.since >= %(since)s::timestamptz AND later.since < %(until)s::timestamptz
        AND (%(path_ids)s::integer[] IS NULL OR later.path_id = ANY(%(path_ids)s::integer[]))
) AS change
ORDER BY at, path_id, protocol, flow

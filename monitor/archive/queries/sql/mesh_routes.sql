-- The routes that paths took at a moment, of these paths or of all (null), and through any of these addresses or any at all
-- (null): those of the last traces of each path, of all flows that were traced within a quarter of an hour. Routes without a
-- trace in the day before are left out.
-- Columns: the fields of monitor.archive.queries.routes.mesh_routes.MeshRoute.
SELECT {columns}
FROM (
    SELECT DISTINCT ON (recent.path_id, recent.route_id)
        recent.path_id, recent.route_id, route.hops, route.reached_at IS NOT NULL AS reached, recent.last_at
    FROM (
        SELECT
            path_id, route_id, least(last_at, %(at)s::timestamptz) AS last_at,
            max(least(last_at, %(at)s::timestamptz)) OVER (PARTITION BY path_id) AS newest_at
        FROM path_route
        WHERE
            since <= %(at)s::timestamptz AND (until IS NULL OR until > %(at)s::timestamptz)
            AND last_at >= %(at)s::timestamptz - interval '1 day'
            AND (%(path_ids)s::integer[] IS NULL OR path_id = ANY(%(path_ids)s::integer[]))
    ) AS recent
    INNER JOIN route ON route.id = recent.route_id
    WHERE
        recent.last_at >= recent.newest_at - interval '15 minutes'
        -- PostgreSQL hashes a list for =, and not for &&, which takes 18 s for 130 addresses on 90,000 paths.
        AND (
            %(addresses)s::text[] IS NULL
            OR EXISTS (SELECT FROM unnest(route.hops) AS hop (address) WHERE address = ANY(%(addresses)s::text[]))
        )
    ORDER BY recent.path_id, recent.route_id, recent.last_at DESC
    LIMIT %(most)s::integer
) AS mesh_route

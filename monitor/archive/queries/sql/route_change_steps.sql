-- The changes of route in each step of [since, until) that has any, of these paths or of all (null), with the times of the
-- first and the last. Columns: the fields of monitor.archive.queries.routes.mesh_routes.ChangeStep.
SELECT {columns}
FROM (
    SELECT
        floor(extract(epoch FROM later.since - %(since)s::timestamptz) / %(step_s)s)::integer AS step,
        count(*) AS changes, min(later.since) AS first_at, max(later.since) AS last_at
    FROM path_route AS later
    WHERE
        later.since >= %(since)s::timestamptz AND later.since < %(until)s::timestamptz
        AND (%(path_ids)s::integer[] IS NULL OR later.path_id = ANY(%(path_ids)s::integer[]))
        AND EXISTS (
            SELECT FROM path_route AS earlier
            WHERE
                earlier.path_id = later.path_id AND earlier.protocol = later.protocol AND earlier.flow = later.flow
                AND earlier.until = later.since
        )
    GROUP BY 1
) AS change_step
ORDER BY step

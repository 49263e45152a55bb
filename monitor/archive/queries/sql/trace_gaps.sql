-- The pauses between two traces of a flow of these paths in [since, until): at least `least` long, and 2.5 times as long
-- as the usual interval. A trace without any reply counts as none. Columns: the fields of
-- monitor.archive.queries.routes.periods.TraceGap.
WITH pause AS (
    SELECT
        path_id, protocol, flow,
        lag(measured_at) OVER (PARTITION BY path_id, protocol, flow ORDER BY measured_at) AS since,
        measured_at AS until
    FROM trace
    WHERE
        path_id = ANY(%(path_ids)s) AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND route_id IS NOT NULL
),

usual AS (
    SELECT path_id, protocol, flow, percentile_disc(0.5) WITHIN GROUP (ORDER BY until - since) AS every
    FROM pause
    WHERE since IS NOT NULL
    GROUP BY path_id, protocol, flow
)

SELECT {columns}
FROM (
    SELECT pause.path_id, pause.protocol, nullif(pause.flow, -1) AS flow, pause.since, pause.until
    FROM pause
    INNER JOIN usual USING (path_id, protocol, flow)
    WHERE pause.until - pause.since > greatest(%(least)s::interval, 2.5 * usual.every)
) AS gap
ORDER BY path_id, protocol, flow NULLS FIRST, since

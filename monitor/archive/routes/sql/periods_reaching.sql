-- The periods of these paths that reach a time of each, or begin later. `last_before` is the last trace of the period
-- before that time, null where all are later.
SELECT
    period.path_id, period.protocol, period.flow, period.id, period.route_id, period.since, period.last_at,
    period.until,
    CASE WHEN period.last_at < late.since THEN period.last_at ELSE (
        SELECT trace.measured_at
        FROM trace
        WHERE
            trace.path_id = period.path_id AND trace.protocol = period.protocol AND trace.flow = period.flow
            AND trace.route_id IS NOT NULL
            AND trace.measured_at >= period.since AND trace.measured_at < late.since
        ORDER BY trace.measured_at DESC
        LIMIT 1
    ) END AS last_before
FROM unnest(%(path_ids)s::integer[], %(since)s::timestamptz[]) AS late (path_id, since)
INNER JOIN path_route AS period ON period.path_id = late.path_id
WHERE period.until IS NULL OR period.until >= late.since
ORDER BY period.path_id, period.since, period.id

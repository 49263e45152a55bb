-- The newest comparison of flows of each of these paths by a trace in [since, until).
-- Columns: the fields of monitor.archive.queries.routes.flow_effects.StoredFlowEffect.
SELECT {columns}
FROM (
    SELECT DISTINCT ON (trace.path_id) trace.path_id, trace.measured_at AS at, trace.flow_effect AS effect
    FROM trace
    WHERE
        trace.path_id = ANY(%(path_ids)s::integer[]) AND trace.measured_at >= %(since)s::timestamptz
        AND trace.measured_at < %(until)s::timestamptz AND trace.flow_effect IS NOT NULL
    ORDER BY trace.path_id, trace.measured_at DESC
) AS newest
ORDER BY path_id

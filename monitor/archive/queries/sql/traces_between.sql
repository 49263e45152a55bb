-- The traces of this path that began in [since, until), whatever their outcome, oldest first.
-- Columns: the fields of monitor.archive.queries.routes.traces.TraceRow.
SELECT {columns}
FROM (
    SELECT
        trace.path_id, trace.measured_at AS at, trace.test, trace.outcome, trace.reason, trace.protocol,
        nullif(trace.flow, -1) AS flow, trace.reached, trace.route_id, route.hops AS route_hops, trace.sent,
        trace.rtts_ms, trace.unknown_ttls, trace.inferred_ttls, trace.mpls, trace.errors, trace.others, trace.flow_effect,
        host(trace.address) AS address, trace.during_test, trace.detail
    FROM trace
    LEFT JOIN route ON route.id = trace.route_id
    WHERE
        trace.path_id = %(path_id)s AND trace.measured_at >= %(since)s::timestamptz
        AND trace.measured_at < %(until)s::timestamptz
) AS trace
ORDER BY at, protocol, flow

-- Set the route of the traces of these periods before a time of each.
UPDATE trace
SET route_id = moved.route_id
FROM unnest(
    %(path_ids)s::integer[], %(protocols)s::text[], %(flows)s::bigint[], %(since)s::timestamptz[],
    %(until)s::timestamptz[], %(route_ids)s::bigint[]
) AS moved (path_id, protocol, flow, since, until, route_id)
WHERE
    trace.path_id = moved.path_id AND trace.protocol = moved.protocol AND trace.flow = moved.flow
    AND trace.measured_at >= moved.since AND trace.measured_at < moved.until AND trace.measured_at >= %(first)s
    AND trace.route_id IS NOT NULL

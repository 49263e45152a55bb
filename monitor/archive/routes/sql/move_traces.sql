-- Set the route of these traces.
UPDATE trace
SET route_id = moved.route_id
FROM unnest(
    %(path_ids)s::integer[], %(measured_at)s::timestamptz[], %(protocols)s::text[], %(flows)s::bigint[],
    %(route_ids)s::bigint[]
) AS moved (path_id, measured_at, protocol, flow, route_id)
WHERE
    trace.path_id = moved.path_id AND trace.measured_at = moved.measured_at
    AND trace.protocol = moved.protocol AND trace.flow = moved.flow

-- Those of these traces that are stored. `first` and `last` are the bounds of the times, so that other chunks are not
-- read.
SELECT trace.path_id, trace.measured_at, trace.protocol, trace.flow
FROM unnest(
    %(path_ids)s::integer[], %(measured_at)s::timestamptz[], %(protocols)s::text[], %(flows)s::bigint[]
) AS delivered (path_id, measured_at, protocol, flow)
INNER JOIN trace
    ON
        trace.path_id = delivered.path_id AND trace.measured_at = delivered.measured_at
        AND trace.protocol = delivered.protocol AND trace.flow = delivered.flow
WHERE trace.measured_at >= %(first)s AND trace.measured_at <= %(last)s

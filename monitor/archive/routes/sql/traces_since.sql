-- The traces of these paths from a time of each on that belong to a route. `first` is the earliest of these times, so
-- that the chunks before it are not read.
SELECT trace.path_id, trace.measured_at, trace.protocol, trace.flow, trace.route_id,
    cardinality(trace.sent), trace.unknown_ttls, trace.reached
FROM unnest(%(path_ids)s::integer[], %(since)s::timestamptz[]) AS late (path_id, since)
INNER JOIN trace ON trace.path_id = late.path_id AND trace.measured_at >= late.since
WHERE trace.measured_at >= %(first)s AND trace.route_id IS NOT NULL

-- For each of these ended periods, its last trace before a time that showed one of these hops or, where `at_end`, reached
-- the destination. Where none is left: `taken_at`, its last trace from that time on, or else its last trace before; null
-- if none.
SELECT coalesce(
    (
        SELECT trace.measured_at
        FROM trace
        WHERE
            trace.path_id = ended.path_id AND trace.protocol = ended.protocol AND trace.flow = ended.flow
            AND trace.route_id IS NOT NULL AND trace.measured_at >= ended.since AND trace.measured_at < ended.before
            AND (
                (ended.at_end AND trace.reached)
                OR EXISTS (
                    SELECT FROM unnest(ended.ttls::integer[]) AS ttl
                    WHERE ttl <= cardinality(trace.sent) AND NOT ttl = ANY(coalesce(trace.unknown_ttls, '{}'))
                )
            )
        ORDER BY trace.measured_at DESC
        LIMIT 1
    ),
    ended.taken_at,
    (
        SELECT trace.measured_at
        FROM trace
        WHERE
            trace.path_id = ended.path_id AND trace.protocol = ended.protocol AND trace.flow = ended.flow
            AND trace.route_id IS NOT NULL AND trace.measured_at >= ended.since AND trace.measured_at < ended.before
        ORDER BY trace.measured_at DESC
        LIMIT 1
    )
)
FROM unnest(
    %(path_ids)s::integer[], %(protocols)s::text[], %(flows)s::bigint[], %(since)s::timestamptz[],
    %(before)s::timestamptz[], %(taken_at)s::timestamptz[], %(ttls)s::text[], %(at_end)s::boolean[]
) WITH ORDINALITY AS ended (path_id, protocol, flow, since, before, taken_at, ttls, at_end, place)
ORDER BY ended.place

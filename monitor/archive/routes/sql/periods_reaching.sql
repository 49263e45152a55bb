-- The periods of these paths that reach a time of each, or begin later. `seen_at` has the last trace of the period before
-- that time that showed each hop, `last_reached_at` the last that reached the destination; null without such a trace.
SELECT
    period.path_id, period.protocol, period.flow, period.id, period.route_id, period.since, period.last_at,
    period.until, period.learned_at, period.reached_at,
    ARRAY(
        SELECT CASE WHEN period.since < late.since AND hop.learned_at IS NOT NULL THEN (
            SELECT trace.measured_at
            FROM trace
            WHERE
                trace.path_id = period.path_id AND trace.protocol = period.protocol AND trace.flow = period.flow
                AND trace.route_id IS NOT NULL AND trace.measured_at >= period.since
                AND trace.measured_at < late.since AND cardinality(trace.sent) >= hop.ttl
                AND NOT hop.ttl = ANY(coalesce(trace.unknown_ttls, '{}'))
            ORDER BY trace.measured_at DESC
            LIMIT 1
        ) END
        FROM unnest(coalesce(period.learned_at, route.learned_at)) WITH ORDINALITY AS hop (learned_at, ttl)
        ORDER BY hop.ttl
    ) AS seen_at, (
        SELECT trace.measured_at
        FROM trace
        WHERE
            trace.path_id = period.path_id AND trace.protocol = period.protocol AND trace.flow = period.flow
            AND trace.route_id IS NOT NULL AND trace.reached
            AND trace.measured_at >= period.since AND trace.measured_at < late.since
        ORDER BY trace.measured_at DESC
        LIMIT 1
    ) AS last_reached_at
FROM unnest(%(path_ids)s::integer[], %(since)s::timestamptz[]) AS late (path_id, since)
INNER JOIN path_route AS period ON period.path_id = late.path_id
INNER JOIN route ON route.id = period.route_id
WHERE period.until IS NULL OR period.until >= late.since
ORDER BY period.path_id, period.since, period.id

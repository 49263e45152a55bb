-- The periods of these paths that reach a time of each, or begin later.
SELECT
    period.path_id, period.protocol, period.flow, period.id, period.route_id, period.since, period.last_at,
    period.until, period.learned_at, period.reached_at
FROM unnest(%(path_ids)s::integer[], %(since)s::timestamptz[]) AS late (path_id, since)
INNER JOIN path_route AS period ON period.path_id = late.path_id
WHERE period.until IS NULL OR period.until >= late.since
ORDER BY period.path_id, period.since, period.id

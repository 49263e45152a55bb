-- Of each of these paths with a counting reflector since `since`: the fields of
-- monitor.archive.queries.directions.DirectionCounter, from the hours.
SELECT {columns}
FROM (
    SELECT
        path_id, sum(counted)::bigint AS counted, sum(forward_lost)::bigint AS forward_lost,
        sum(reverse_lost)::bigint AS reverse_lost
    FROM direction_hour
    WHERE path_id = ANY(%(path_ids)s::integer[]) AND hour >= %(since)s::timestamptz AND bursts_counted > 0
    GROUP BY path_id
) AS counter

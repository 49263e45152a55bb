-- One row for each STAMP cycle of the paths (path_ids[i]) whose reflector counts, that began in [since_s[i], until), own
-- tests left out, by path and time: when it began (seconds since the epoch), packets sent and received of each direction.
SELECT
    path_id, at_s, counted AS forward_sent, counted - forward_lost AS forward_received,
    counted - forward_lost AS reverse_sent, counted - forward_lost - reverse_lost AS reverse_received
FROM (
    SELECT path_id, to_timestamp(since_s) AS since
    FROM unnest(%(path_ids)s::integer[], %(since_s)s::double precision[]) AS each_path (path_id, since_s)
) AS asked
CROSS JOIN LATERAL (
    SELECT
        date_part('epoch', measured_at) AS at_s, sent - undecided AS counted, forward_lost, reverse_lost
    FROM direction_burst
    WHERE
        direction_burst.path_id = asked.path_id AND measured_at >= asked.since
        AND measured_at >= to_timestamp(%(earliest_s)s) AND measured_at < %(until)s::timestamptz
        AND outcome = 'measured' AND NOT during_test AND forward_lost IS NOT NULL
    OFFSET 0
) AS raw
ORDER BY path_id, at_s

-- One row for each STAMP cycle of the paths whose reflector counts, that began in [since, until), own tests left out, by path
-- and time: when it began (seconds since the epoch), packets sent and received of each direction.
SELECT
    path_id, date_part('epoch', measured_at) AS at_s,
    sent - undecided AS forward_sent, sent - undecided - forward_lost AS forward_received,
    sent - undecided - forward_lost AS reverse_sent, sent - undecided - forward_lost - reverse_lost AS reverse_received
FROM direction_burst
WHERE
    path_id = ANY(%(path_ids)s::integer[])
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    AND outcome = 'measured' AND NOT during_test AND forward_lost IS NOT NULL
ORDER BY path_id, measured_at

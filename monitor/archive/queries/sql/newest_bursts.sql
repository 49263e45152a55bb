-- One row for each measured burst of the paths that began in [since, until), own tests left out, by path and time: when it
-- began (seconds since the epoch), packets sent and received. Reads raw bursts: at most once those of the period, also
-- where the server knows nothing of a new table.
SELECT path_id, date_part('epoch', measured_at) AS at_s, sent, received
FROM burst
WHERE
    path_id = ANY(%(path_ids)s::integer[])
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    AND outcome = 'measured' AND NOT during_test
ORDER BY path_id, measured_at

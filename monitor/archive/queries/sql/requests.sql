-- One row for each measured burst of the paths that began in [since, until), those during our own tests included, by path
-- and time: when it began (seconds since the epoch), its packet size, and whether any of its packets was answered. Reads
-- raw bursts.
SELECT
    path_id,
    date_part('epoch', measured_at) AS at_s,
    packet_bytes,
    (received > 0 OR coalesce(cardinality(array_remove(loaded_rtts_ms, NULL)), 0) > 0)::integer AS answered
FROM burst
WHERE
    path_id = ANY(%(path_ids)s::integer[])
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    AND outcome = 'measured'
ORDER BY path_id, measured_at

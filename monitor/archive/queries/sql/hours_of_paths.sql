-- One row for each of these paths and hour of [since, until) with a summary of this size: the fields of
-- monitor.archive.queries.paths.PathHour.
SELECT path_id, hour AS at, sent, received, rtt_median_ms
FROM burst_hour
WHERE
    path_id = ANY(%(path_ids)s) AND packet_bytes = %(packet_bytes)s
    AND hour >= %(since)s::timestamptz AND hour < %(until)s::timestamptz AND bursts + bursts_not_measured > 0
ORDER BY path_id, hour

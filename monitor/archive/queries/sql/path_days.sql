-- One row for each of the given paths and sizes (path_ids[i], sizes[i]) and UTC day that begins in [since, until): the fields
-- of monitor.archive.queries.for_reports.PathDay.
SELECT path_id, packet_bytes, day, sent, received, rtt_median_ms
FROM burst_day
INNER JOIN unnest(%(path_ids)s::integer[], %(sizes)s::integer[]) AS wanted (path_id, packet_bytes)
    USING (path_id, packet_bytes)
WHERE day >= %(since)s::timestamptz AND day < %(until)s::timestamptz
ORDER BY path_id, day

-- One row for each burst of this path that began in [since, until): the fields of monitor.archive.queries.paths.RawBurst.
SELECT
    measured_at AS at, packet_bytes, outcome, sent, received, duplicates, reordered, late, ttl, during_test, detail, rtts_ms
FROM burst
WHERE
    path_id = %(path_id)s
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    AND (%(packet_bytes)s::integer IS NULL OR packet_bytes = %(packet_bytes)s::integer)
ORDER BY measured_at, packet_bytes

-- The bursts of this path that began in [since, until), oldest first. Columns: the fields of
-- monitor.archive.queries.paths.RawBurst.
SELECT {columns}
FROM (SELECT burst.*, measured_at AS at FROM burst) AS raw
WHERE
    path_id = %(path_id)s AND at >= %(since)s::timestamptz AND at < %(until)s::timestamptz
    AND (%(packet_bytes)s::integer IS NULL OR packet_bytes = %(packet_bytes)s::integer)
ORDER BY at, packet_bytes

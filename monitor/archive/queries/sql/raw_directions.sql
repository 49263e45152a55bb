-- The STAMP cycles of a path that began in [since, until), of any outcome: the fields of
-- monitor.archive.queries.directions.RawDirection.
SELECT {columns}
FROM (SELECT direction_burst.*, measured_at AS at FROM direction_burst) AS cycle
WHERE
    path_id = %(path_id)s AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
ORDER BY measured_at, packet_bytes

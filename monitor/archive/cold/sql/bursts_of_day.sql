-- The bursts that began in [since, until), by path, time and size. Columns: those of the table.
SELECT {columns}
FROM burst
WHERE measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
ORDER BY path_id, measured_at, packet_bytes

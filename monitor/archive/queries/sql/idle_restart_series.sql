-- The tests of slow start after idle of this path that began in [since, until), whatever their outcome, oldest first.
-- Columns: the fields of monitor.archive.queries.throughput.idle_restarts.IdleRestartPoint.
SELECT {columns}
FROM (SELECT idle_restart.*, measured_at AS at FROM idle_restart) AS test
WHERE path_id = %(path_id)s AND at >= %(since)s::timestamptz AND at < %(until)s::timestamptz
ORDER BY at

-- The capacity measurements of this path that began in [since, until), whatever their outcome, oldest first. Columns:
-- the fields of monitor.archive.queries.throughput.series.CapacityPoint.
SELECT {columns}
FROM (SELECT capacity_result.*, measured_at AS at FROM capacity_result) AS result
WHERE path_id = %(path_id)s AND at >= %(since)s::timestamptz AND at < %(until)s::timestamptz
ORDER BY at

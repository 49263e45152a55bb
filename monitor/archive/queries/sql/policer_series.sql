-- The policer tests of this path that began in [since, until), whatever their outcome, oldest first.
-- Columns: the fields of monitor.archive.queries.policers.PolicerPoint.
SELECT {columns}
FROM (SELECT policer_result.*, measured_at AS at FROM policer_result) AS test
WHERE path_id = %(path_id)s AND at >= %(since)s::timestamptz AND at < %(until)s::timestamptz
ORDER BY at

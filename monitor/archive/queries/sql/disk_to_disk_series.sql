-- The disk-to-disk measurements of this path that began in [since, until), whatever their outcome, oldest first.
-- Columns: the fields of monitor.archive.queries.disk_to_disk.DiskToDiskPoint.
SELECT {columns}
FROM (SELECT disk_to_disk_test.*, measured_at AS at FROM disk_to_disk_test) AS test
WHERE path_id = %(path_id)s AND at >= %(since)s::timestamptz AND at < %(until)s::timestamptz
ORDER BY at

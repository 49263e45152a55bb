-- The newest request-response runs of this path that began in [since, until), at most so many, newest first. Columns:
-- the fields of monitor.archive.queries.throughput.request_response.RequestResponsePoint.
SELECT {columns}
FROM (SELECT request_response.*, measured_at AS at FROM request_response) AS run
WHERE path_id = %(path_id)s AND at >= %(since)s::timestamptz AND at < %(until)s::timestamptz
ORDER BY at DESC
LIMIT %(most)s

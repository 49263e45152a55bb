-- The results refused last, by the order in which they were kept: the fields of monitor.archive.queries.operation.deliveries.RefusedReport.
SELECT site_id, sequence, refused_at, reason
FROM refused_result
ORDER BY id DESC
LIMIT %(limit)s

-- The newest refused results: the fields of monitor.archive.queries.RefusedReport.
SELECT site_id, sequence, refused_at, reason
FROM refused_result
ORDER BY refused_at DESC, id DESC
LIMIT %(limit)s

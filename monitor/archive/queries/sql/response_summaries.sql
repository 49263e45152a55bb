-- The request-response runs of these paths that began in [since, until), outside of throughput tests, by path, test and
-- sizes. Columns: the fields of monitor.archive.queries.for_reports.ResponseSummary.
SELECT
    path_id, test, request_bytes, response_bytes,
    count(median_ms) AS runs,
    count(*) - count(median_ms) AS failed,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY median_ms) AS median_ms,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY p95_ms) AS p95_ms,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY transactions_per_s) AS transactions_per_s
FROM request_response
WHERE
    path_id = ANY(%(path_ids)s) AND NOT during_test
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
GROUP BY path_id, test, request_bytes, response_bytes
ORDER BY path_id, test, request_bytes, response_bytes

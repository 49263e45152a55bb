-- The first request-response run with latencies of each path, sizes of request and response, and hour in [since, until),
-- outside of throughput tests. Columns: when it began (seconds since the epoch), its latencies.
SELECT DISTINCT ON (path_id, request_bytes, response_bytes, date_trunc('hour', measured_at, 'UTC'))
    path_id, request_bytes, response_bytes, extract(epoch FROM measured_at) AS at_s, median_ms, p95_ms
FROM request_response
WHERE
    measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    AND median_ms IS NOT NULL AND NOT during_test
ORDER BY path_id, request_bytes, response_bytes, date_trunc('hour', measured_at, 'UTC'), measured_at

-- The newest request-response runs with latencies of each of the paths in [since, until), outside of throughput tests:
-- at most `most` of each path and sizes of request and response, among the newest `most_of_path` of the path. Columns:
-- the run's place counted back from the newest of its sizes, when it began (seconds since the epoch), its latencies.
SELECT
    wanted.path_id, request_bytes, response_bytes, place - 1 AS place,
    extract(epoch FROM measured_at) AS at_s, median_ms, p95_ms
FROM unnest(%(path_ids)s::integer[]) AS wanted (path_id)
CROSS JOIN LATERAL (
    SELECT *, row_number() OVER (PARTITION BY request_bytes, response_bytes ORDER BY measured_at DESC) AS place
    FROM (
        SELECT measured_at, request_bytes, response_bytes, median_ms, p95_ms
        FROM request_response
        WHERE
            request_response.path_id = wanted.path_id
            AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
            AND median_ms IS NOT NULL AND NOT during_test
        ORDER BY measured_at DESC
        LIMIT %(most_of_path)s
    ) AS newest_of_path
) AS newest
WHERE place <= %(most)s

-- The request-response runs of this path in [since, until) outside of throughput tests, by test, block sizes and
-- intervals of step_s seconds. Columns: the fields of monitor.archive.queries.throughput.request_response.ResponseInterval.
SELECT {columns}
FROM (
    SELECT
        to_timestamp(floor(extract(epoch FROM measured_at) / %(step_s)s::float8) * %(step_s)s::float8) AS at,
        test, request_bytes, response_bytes,
        count(median_ms) AS runs,
        count(*) - count(median_ms) AS failed,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY median_ms) AS median_ms,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY p95_ms) AS p95_ms,
        max(maximum_ms) AS maximum_ms,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY transactions_per_s) AS transactions_per_s
    FROM request_response
    WHERE path_id = %(path_id)s AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND NOT during_test
    GROUP BY 1, 2, 3, 4
) AS interval_of_runs
ORDER BY at, test

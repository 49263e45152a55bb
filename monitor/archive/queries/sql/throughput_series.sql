-- The throughput tests of this path that began in [since, until), whatever their outcome, oldest first. Columns: the
-- fields of monitor.archive.queries.throughput.series.ThroughputPoint.
SELECT {columns}
FROM (
    SELECT
        throughput_test.*, measured_at AS at,
        (diagnosis ->> 'peer_window_bytes')::double precision AS peer_window_bytes
    FROM throughput_test
) AS test
WHERE path_id = %(path_id)s AND at >= %(since)s::timestamptz AND at < %(until)s::timestamptz
ORDER BY at

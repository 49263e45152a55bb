-- One row for each of these paths and packet size with bursts that began while a test of the path itself transferred data in
-- [since, until) and of which packets were sent under load: their round trips for NumPy, as series_from_raw has them. Its hosts
-- run no other test meanwhile. Tests that failed loaded nothing; none lasts longer than a day, whatever an agent reports.
SELECT
    burst.path_id,
    burst.packet_bytes,
    string_agg(int2send(cardinality(loaded.rtts_ms)::smallint), '') AS packets,
    string_agg(array_send(array_replace(loaded.rtts_ms, NULL, 'NaN'::real)), '') AS rtts
FROM throughput_test AS test
INNER JOIN burst
    ON
        burst.path_id = test.path_id
        AND burst.measured_at >= test.measured_at
        AND burst.measured_at < test.measured_at + make_interval(secs => least(coalesce(test.duration_s, 0), 86400))
CROSS JOIN LATERAL (
    SELECT CASE WHEN burst.during_test THEN burst.rtts_ms ELSE burst.loaded_rtts_ms END AS rtts_ms
) AS loaded
WHERE
    test.outcome = 'measured'
    AND test.path_id = ANY(%(path_ids)s::integer[])
    AND test.measured_at >= %(since)s::timestamptz AND test.measured_at < %(until)s::timestamptz
    AND burst.loaded_rtts_ms IS NOT NULL
GROUP BY burst.path_id, burst.packet_bytes
ORDER BY burst.path_id, burst.packet_bytes

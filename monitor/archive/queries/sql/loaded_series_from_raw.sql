-- One row for each step of step_s seconds, aligned to the epoch, in which a burst of this path and size in [since, until)
-- began of which packets were sent during our own tests: the round trips of these for NumPy, as series_from_raw has them.
SELECT
    date_bin(make_interval(secs => %(step_s)s), measured_at, 'epoch') AS at,
    string_agg(int2send(cardinality(rtts_ms)::smallint), '') AS packets,
    string_agg(array_send(array_replace(rtts_ms, NULL, 'NaN'::real)), '') AS rtts
FROM (
    SELECT measured_at, CASE WHEN during_test THEN rtts_ms ELSE loaded_rtts_ms END AS rtts_ms
    FROM burst
    WHERE
        path_id = %(path_id)s AND packet_bytes = %(packet_bytes)s
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND loaded_rtts_ms IS NOT NULL
) AS loaded
GROUP BY at
ORDER BY at

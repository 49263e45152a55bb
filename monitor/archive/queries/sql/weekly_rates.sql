-- One row for each of these paths and week (UTC, from Monday) of [since, until) with scheduled TCP tests, none named
-- `left_out`: their number, the rate that 95 of 100 exceed and the fastest. The fields of
-- monitor.archive.queries.throughput.interfaces.WeeklyRates.
SELECT
    path_id, date_trunc('week', measured_at AT TIME ZONE 'UTC')::date AS week, count(*) AS tests,
    percentile_cont(0.05) WITHIN GROUP (ORDER BY throughput_bps) AS low_bps, max(throughput_bps) AS fastest_bps
FROM throughput_test
WHERE
    path_id = ANY(%(path_ids)s) AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    AND throughput_bps IS NOT NULL AND protocol = 'tcp' AND test <> %(left_out)s
GROUP BY 1, 2
ORDER BY 1, 2

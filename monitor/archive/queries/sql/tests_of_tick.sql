-- One row for each path with a scheduled TCP throughput test in [since_{number}, until_{number}): its median.
SELECT path_id, percentile_cont(0.5) WITHIN GROUP (ORDER BY throughput_bps) AS throughput_median_bps
FROM throughput_test
WHERE
    protocol = 'tcp' AND test <> 'on-demand' AND throughput_bps IS NOT NULL
    AND measured_at >= %(since_{number})s::timestamptz AND measured_at < %(until_{number})s::timestamptz
GROUP BY path_id

-- The newest scheduled TCP tests of a path with a rate, of this congestion control and number of streams, that began in
-- [since, until), newest first, at most `most`: when they began, and the rate.
SELECT measured_at AS at, throughput_bps
FROM throughput_test
WHERE
    path_id = %(path_id)s AND protocol = 'tcp' AND throughput_bps > 0 AND test <> %(on_demand)s
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    AND congestion_control IS NOT DISTINCT FROM %(congestion_control)s::text AND streams = %(streams)s
ORDER BY measured_at DESC
LIMIT %(most)s

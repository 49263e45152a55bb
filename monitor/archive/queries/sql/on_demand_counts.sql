-- One row for each path with on-demand TCP tests, those of sweeps included, in [since, until): how many. No average counts
-- them.
SELECT path_id, count(*) AS tests
FROM throughput_test
WHERE
    measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    AND protocol = 'tcp' AND test = 'on-demand'
GROUP BY path_id
ORDER BY path_id

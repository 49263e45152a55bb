-- One row for each path with a TCP throughput test that began in [since, until): the fields of
-- monitor.archive.queries.throughput.series.PathThroughput. The latest test may be one that was not measured.
-- Those that somebody asked for are left out: their settings are anybody's.
SELECT
    path_id,
    count(*) AS tests,
    count(throughput_bps) AS measured,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY throughput_bps) AS throughput_median_bps,
    min(throughput_bps) AS throughput_min_bps,
    max(throughput_bps) AS throughput_max_bps,
    (array_agg(throughput_bps ORDER BY measured_at DESC) FILTER (WHERE throughput_bps IS NOT NULL))[1] AS newest_bps,
    max(measured_at) AS latest_at,
    (array_agg(outcome ORDER BY measured_at DESC))[1] AS latest_outcome,
    (array_agg(throughput_bps ORDER BY measured_at DESC))[1] AS latest_bps,
    (array_agg(detail ORDER BY measured_at DESC))[1] AS latest_detail,
    count(*) FILTER (WHERE outcome = 'missed') AS not_run
FROM throughput_test
WHERE
    protocol = 'tcp' AND test <> 'on-demand'
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    AND (%(path_ids)s::integer[] IS NULL OR path_id = ANY(%(path_ids)s::integer[]))
GROUP BY path_id
ORDER BY path_id

-- The measured TCP tests of these paths that began in [since, until), without those of a test named `left_out`, by path
-- and time: the fields of monitor.archive.queries.throughput.series.PathRate.
SELECT path_id, measured_at AS at, throughput_bps
FROM throughput_test
WHERE
    path_id = ANY(%(path_ids)s) AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    AND throughput_bps IS NOT NULL AND protocol = 'tcp' AND test <> %(left_out)s
ORDER BY path_id, measured_at

-- One row for each TCP throughput test of these paths that began in [since, until), those on demand included, by path and
-- time: when it began, the name of its test, its outcome and its rate. Reads the tests of the period at most once, also
-- where the server knows nothing of a new table.
SELECT path_id, measured_at, test, outcome, throughput_bps
FROM throughput_test
WHERE
    path_id = ANY(%(path_ids)s::integer[])
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    AND protocol = 'tcp'
ORDER BY path_id, measured_at

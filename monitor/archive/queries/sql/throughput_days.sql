-- One row for each of the given paths and UTC day that begins in [since, until) with a measured throughput test: the fields
-- of monitor.archive.queries.for_reports.ThroughputDay.
SELECT path_id, day, tests_measured, throughput_median_bps
FROM throughput_day
WHERE
    path_id = ANY(%(path_ids)s::integer[]) AND throughput_median_bps IS NOT NULL
    AND day >= %(since)s::timestamptz AND day < %(until)s::timestamptz
ORDER BY path_id, day

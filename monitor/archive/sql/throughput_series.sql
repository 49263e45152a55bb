-- One row for each throughput test of this path that began in [since, until), whatever its outcome: the fields of
-- monitor.archive.queries.ThroughputPoint.
SELECT
    measured_at AS at, test, outcome, throughput_bps, streams, duration_s, retransmits, rtt_mean_ms, detail
FROM throughput_test
WHERE
    path_id = %(path_id)s
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
ORDER BY measured_at

-- One row for each throughput test of this path that began in [since, until), whatever its outcome: the fields of
-- monitor.archive.queries.throughput.series.ThroughputPoint.
SELECT
    measured_at AS at, test, protocol, outcome, throughput_bps, average_bps, steady_s, verdict, sentence,
    congestion_control, (diagnosis ->> 'peer_window_bytes')::double precision AS peer_window_bytes, streams, duration_s,
    retransmits, rtt_mean_ms, detail
FROM throughput_test
WHERE
    path_id = %(path_id)s
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
ORDER BY measured_at

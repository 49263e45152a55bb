-- One row for each capacity measurement of this path that began in [since, until), whatever its outcome: the fields of
-- monitor.archive.queries.throughput.series.CapacityPoint.
SELECT
    measured_at AS at, test, outcome, verdict, capacity_bps, capacity_low_bps, capacity_high_bps, packet_bytes, sent,
    received, method, during_test, detail
FROM capacity_result
WHERE
    path_id = %(path_id)s
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
ORDER BY measured_at

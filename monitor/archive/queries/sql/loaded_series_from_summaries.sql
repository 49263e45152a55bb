-- One row for each {tier} that overlaps [since, until) in which packets of this path and size were sent during our own
-- tests: the fields of monitor.archive.queries.throughput.under_load.LoadedPoint.
SELECT
    {tier} AS at, loaded_sent AS sent, loaded_received AS received, loaded_rtt_median_ms AS rtt_median_ms,
    loaded_rtt_p95_ms AS rtt_p95_ms
FROM burst_{tier}
WHERE
    path_id = %(path_id)s AND packet_bytes = %(packet_bytes)s
    AND {tier} >= %(since)s::timestamptz AND {tier} < %(until)s::timestamptz
    AND loaded_sent > 0
ORDER BY {tier}

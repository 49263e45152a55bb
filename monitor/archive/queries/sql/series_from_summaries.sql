-- One row for each {tier} that overlaps [since, until) with a summary of this path and size: the fields of
-- monitor.archive.queries.paths.SeriesPoint. Those with nothing but bursts during our own tests are left out.
SELECT
    {tier} AS at, sent, received, bursts_not_measured, rtt_min_ms, rtt_p25_ms, rtt_median_ms, rtt_p75_ms, rtt_p95_ms,
    rtt_max_ms, estimate_bps, estimate_is_floor, loss_max_ratio
FROM burst_{tier}
WHERE
    path_id = %(path_id)s AND packet_bytes = %(packet_bytes)s
    AND {tier} >= %(since)s::timestamptz AND {tier} < %(until)s::timestamptz
    AND bursts + bursts_not_measured > 0
ORDER BY {tier}

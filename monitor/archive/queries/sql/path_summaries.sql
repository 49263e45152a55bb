-- One row for each path and packet size with a summary in the period: the fields of monitor.archive.queries.paths.PathSummary
-- but for the median, then what the median is made from (see pooled.sql).
SELECT
    path_id, packet_bytes, bursts, bursts_all_lost, bursts_none_lost, bursts_during_test, bursts_not_measured, sent,
    received, duplicates, reordered, rtt_min_ms, NULL AS rtt_median_ms, rtt_p95_ms, rtt_max_ms, rtt_avg_ms, ipdv_ms,
    reporting.mathis_estimate_bps(rtt_avg_ms, sent, received) AS estimate_bps,
    reporting.mathis_estimate_is_floor(rtt_avg_ms, sent, received) AS estimate_is_floor,
    coalesce(bursts_excluded, 0) AS bursts_excluded, quantiles, weights
FROM (
{pooled}
) AS summary
ORDER BY path_id, packet_bytes

-- One row for each path and packet size: its summaries as one. Counts are added, means weighted by what they are means of,
-- extremes the extremes, and P95 the greatest, so that it is not averaged away. `quantiles` and `weights` have what a
-- quantile is made from: each summary's own, and how many packets it has received, in binary and in the same order. `bursts_planned`
-- is the sum of the summaries' plans, or planned_cycles.sql.
SELECT
    path_id, packet_bytes,
    sum(bursts) AS bursts,
    sum(bursts_all_lost) AS bursts_all_lost,
    sum(bursts_none_lost) AS bursts_none_lost,
    sum(bursts_during_test) AS bursts_during_test,
    sum(bursts_not_measured) AS bursts_not_measured,
    sum(bursts_excluded) AS bursts_excluded,
    {planned} AS bursts_planned,
    sum(bursts_duplicated) AS bursts_duplicated,
    sum(bursts_reordered) AS bursts_reordered,
    sum(sent) AS sent,
    sum(received) AS received,
    sum(late) AS late,
    sum(duplicates) AS duplicates,
    sum(reordered) AS reordered,
    sum(losses_followed) AS losses_followed,
    sum(losses_paired) AS losses_paired,
    max(loss_max_ratio) AS loss_max_ratio,
    min(rtt_min_ms) AS rtt_min_ms,
    max(rtt_p95_ms) AS rtt_p95_ms,
    max(rtt_max_ms) AS rtt_max_ms,
    sum(rtt_avg_ms * received) / nullif(sum(received), 0) AS rtt_avg_ms,
    sum(rtt_iqr_ms * (bursts - bursts_all_lost)) / nullif(sum(bursts - bursts_all_lost), 0) AS rtt_iqr_ms,
    sum(ipdv_ms::double precision * bursts) / nullif(sum(bursts) FILTER (WHERE ipdv_ms IS NOT NULL), 0) AS ipdv_ms,
    sum(received_avg_ratio * bursts) / nullif(sum(bursts), 0) AS received_avg_ratio,
    max(received_max_ratio) AS received_max_ratio,
    sum(rate_avg_per_ms * (bursts - bursts_all_lost)) / nullif(sum(bursts - bursts_all_lost), 0) AS rate_avg_per_ms,
    max(rate_max_per_ms) AS rate_max_per_ms,
    string_agg(float4send({quantile}), '') FILTER (WHERE {quantile} IS NOT NULL) AS quantiles,
    string_agg(int4send(received), '') FILTER (WHERE {quantile} IS NOT NULL) AS weights
FROM ({pieces}) AS piece
GROUP BY path_id, packet_bytes

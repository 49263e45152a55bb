-- One row for each path and packet size with a summary of an hour that overlaps [since, until): the fields of
-- monitor.archive.queries.PathSummary but for the estimate. The median is the weighted one of the hourly medians: the
-- smallest with half of the received packets at or below it.
WITH hours AS (
    SELECT
        *,
        sum(received) OVER by_median AS received_below,
        sum(received) OVER (PARTITION BY path_id, packet_bytes) AS received_in_all
    FROM burst_hour
    WHERE
        hour > %(since)s::timestamptz - interval '1 hour' AND hour < %(until)s::timestamptz
        AND (%(packet_bytes)s::integer IS NULL OR packet_bytes = %(packet_bytes)s::integer)
        AND (%(path_ids)s::integer[] IS NULL OR path_id = ANY(%(path_ids)s::integer[]))
    WINDOW by_median AS (PARTITION BY path_id, packet_bytes ORDER BY rtt_median_ms)
)
SELECT
    path_id,
    packet_bytes,
    sum(bursts) AS bursts,
    sum(bursts_all_lost) AS bursts_all_lost,
    sum(bursts_none_lost) AS bursts_none_lost,
    sum(bursts_during_test) AS bursts_during_test,
    sum(bursts_not_measured) AS bursts_not_measured,
    sum(sent) AS sent,
    sum(received) AS received,
    sum(duplicates) AS duplicates,
    sum(reordered) AS reordered,
    min(rtt_min_ms) AS rtt_min_ms,
    min(rtt_median_ms) FILTER (WHERE received_below * 2 >= received_in_all) AS rtt_median_ms,
    max(rtt_p95_ms) AS rtt_p95_ms,
    max(rtt_max_ms) AS rtt_max_ms,
    sum(rtt_avg_ms::double precision * received) / nullif(sum(received), 0) AS rtt_avg_ms,
    sum(ipdv_ms::double precision * bursts) / nullif(sum(bursts) FILTER (WHERE ipdv_ms IS NOT NULL), 0) AS ipdv_ms
FROM hours
GROUP BY path_id, packet_bytes
ORDER BY path_id, packet_bytes

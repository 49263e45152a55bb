-- The median RTT of each path of the period, as monitor.analysis.summaries.grouped_weighted_medians: the lowest median of
-- its summaries with half of the packets received at or below it.
SELECT
    path_id, NULL, NULL, NULL, NULL,
    min(rtt_median_ms) FILTER (WHERE 2 * at_or_below >= of_all)
FROM (
    SELECT
        path_id, rtt_median_ms,
        sum(received) OVER (
            PARTITION BY path_id ORDER BY rtt_median_ms ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS at_or_below,
        sum(received) OVER (PARTITION BY path_id) AS of_all
    FROM ({pieces}) AS piece
    WHERE rtt_median_ms IS NOT NULL AND received > 0
) AS weighted
GROUP BY path_id

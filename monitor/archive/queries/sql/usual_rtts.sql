-- Of each path with a median RTT in these hours, the median of those of its smallest packets.
SELECT path_id, percentile_cont(0.5) WITHIN GROUP (ORDER BY rtt_median_ms) AS rtt_median_ms
FROM (
    SELECT DISTINCT ON (path_id, hour) path_id, rtt_median_ms
    FROM burst_hour
    WHERE hour = ANY(%(hours)s::timestamptz[]) AND rtt_median_ms IS NOT NULL
    ORDER BY path_id, hour, packet_bytes
) AS of_smallest
GROUP BY path_id

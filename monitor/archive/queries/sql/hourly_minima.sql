-- Of each of these paths with replies in [since, until): its hours with replies, and their minimum RTTs in ms, over all
-- packet sizes.
SELECT path_id, array_agg(hour ORDER BY hour) AS hours, array_agg(rtt_min_ms ORDER BY hour) AS minima_ms
FROM (
    SELECT path_id, hour, min(rtt_min_ms) AS rtt_min_ms
    FROM burst_hour
    WHERE
        path_id = ANY(%(path_ids)s) AND hour >= %(since)s::timestamptz AND hour < %(until)s::timestamptz
        AND rtt_min_ms IS NOT NULL
    GROUP BY path_id, hour
) AS by_hour
GROUP BY path_id

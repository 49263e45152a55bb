-- The minimum RTT, in ms, of each hour of [since, until) with replies on this path, all packet sizes.
SELECT hour AS at, min(rtt_min_ms) AS rtt_min_ms
FROM burst_hour
WHERE
    path_id = %(path_id)s AND hour >= %(since)s::timestamptz AND hour < %(until)s::timestamptz
    AND rtt_min_ms IS NOT NULL
GROUP BY hour
ORDER BY hour

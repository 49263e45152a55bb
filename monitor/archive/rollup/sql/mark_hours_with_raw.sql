-- Marks the hours in [since, until) dirty in which raw results of these paths (null: of all) began. The others keep their
-- summary: their raw results may have been deleted.
INSERT INTO dirty_hour (path_id, hour, marked_at)
SELECT path_id, date_trunc('hour', measured_at, 'UTC') AS hour, %(now)s::timestamptz
FROM (
    SELECT path_id, measured_at FROM burst
    WHERE measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    UNION ALL
    SELECT path_id, measured_at FROM throughput_test
    WHERE measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    UNION ALL
    SELECT path_id, measured_at FROM direction_burst
    WHERE measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
) AS raw
WHERE %(path_ids)s::integer[] IS NULL OR path_id = ANY(%(path_ids)s::integer[])
GROUP BY path_id, hour
ORDER BY path_id, hour
ON CONFLICT (path_id, hour) DO UPDATE SET marked_at = least(dirty_hour.marked_at, excluded.marked_at)

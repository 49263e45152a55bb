-- Marks hours of paths, counted since 2000, dirty. Why a mark that exists is locked is told in store_bursts.sql.
INSERT INTO dirty_hour (path_id, hour, marked_at)
SELECT
    path_id, timestamptz '2000-01-01T00:00:00Z' + hour_number * interval '1 hour' AS hour, %(now)s::timestamptz
FROM unnest(%(path_ids)s::integer[], %(hours)s::bigint[]) AS stored (path_id, hour_number)
ORDER BY path_id, hour
ON CONFLICT (path_id, hour) DO UPDATE SET marked_at = excluded.marked_at
WHERE excluded.marked_at < dirty_hour.marked_at

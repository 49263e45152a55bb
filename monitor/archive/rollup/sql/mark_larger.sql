-- Marks the {tier} of each of the given (path_ids[i], starts[i]) dirty. In the order of their keys, so that two roll-ups
-- that overlap wait for each other instead of deadlocking; a mark that is there is locked, as in store_bursts.sql.
INSERT INTO dirty_summary (tier, path_id, starts_at, marked_at)
SELECT DISTINCT '{tier}', path_id, date_trunc('{tier}', starts_at, 'UTC') AS starts_at, %(now)s::timestamptz
FROM unnest(%(path_ids)s::integer[], %(starts)s::timestamptz[]) AS changed (path_id, starts_at)
ORDER BY path_id, starts_at
ON CONFLICT (tier, path_id, starts_at)
DO UPDATE SET marked_at = least(dirty_summary.marked_at, excluded.marked_at)

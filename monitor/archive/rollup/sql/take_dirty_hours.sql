-- Takes up to limit dirty hours away, newest hours first, and returns their path_id, hour and marked_at. Marks that another
-- transaction holds are passed over; that transaction, or the next rollup, deals with them.
DELETE FROM dirty_hour
USING (
    SELECT path_id, hour
    FROM dirty_hour
    ORDER BY hour DESC, path_id
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
) AS taken
WHERE dirty_hour.path_id = taken.path_id AND dirty_hour.hour = taken.hour
RETURNING dirty_hour.path_id, dirty_hour.hour, dirty_hour.marked_at

-- Takes up to limit hours away that were marked dirty at `marked_by` or before, if that is not null, newest hours first and of these the longest
-- waiting, and returns their path_id, hour and marked_at. Marks that another transaction holds are passed over; that
-- transaction, or the next rollup, deals with them.
DELETE FROM dirty_hour
USING (
    SELECT path_id, hour
    FROM dirty_hour
    WHERE %(marked_by)s::timestamptz IS NULL OR marked_at <= %(marked_by)s::timestamptz
    ORDER BY hour DESC, marked_at, path_id
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
) AS taken
WHERE dirty_hour.path_id = taken.path_id AND dirty_hour.hour = taken.hour
RETURNING dirty_hour.path_id, dirty_hour.hour, dirty_hour.marked_at

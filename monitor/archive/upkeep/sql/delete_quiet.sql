-- Deletes up to %(most)s silences and maintenances that were over for good before a moment. What was done about one stays,
-- without it. One row: how many went.
WITH old AS (
    SELECT id FROM quiet
    WHERE
        least(ended_at, CASE WHEN every_s IS NULL THEN ends_at ELSE until END) < %(before)s::timestamptz
        -- One that was called off before it began ends no later than that.
        AND made_at < %(before)s::timestamptz
    LIMIT %(most)s
    FOR UPDATE SKIP LOCKED
),

deeds AS (UPDATE deed SET quiet_id = NULL FROM old WHERE deed.quiet_id = old.id),

gone AS (DELETE FROM quiet USING old WHERE quiet.id = old.id RETURNING 1)

SELECT count(*) FROM gone

-- Deletes up to %(most)s slots that began before a moment and have ended, with all that belongs to them. One that a sweep
-- still waits for stays. One row: how many went.
WITH old AS (
    SELECT id FROM slot
    WHERE
        starts_at < %(before)s::timestamptz AND outcome IS NOT NULL
        AND NOT EXISTS (
            SELECT FROM throughput_sweep_cell AS cell WHERE cell.slot_id = slot.id AND cell.outcome IS NULL
        )
    LIMIT %(most)s
    FOR UPDATE SKIP LOCKED
),

hosts AS (DELETE FROM slot_host USING old WHERE slot_host.slot_id = old.id),

uplinks AS (DELETE FROM slot_uplink USING old WHERE slot_uplink.slot_id = old.id),

requests AS (DELETE FROM slot_request USING old WHERE slot_request.slot_id = old.id),

gone AS (DELETE FROM slot USING old WHERE slot.id = old.id RETURNING 1)

SELECT count(*) FROM gone

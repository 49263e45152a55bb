-- Deletes up to %(most)s sweeps that were asked for before a moment and have ended, with their cells. One row: how many went.
WITH old AS (
    SELECT id FROM throughput_sweep AS sweep
    WHERE
        asked_at < %(before)s::timestamptz
        AND NOT EXISTS (
            SELECT FROM throughput_sweep_cell AS cell WHERE cell.sweep_id = sweep.id AND cell.outcome IS NULL
        )
    LIMIT %(most)s
    FOR UPDATE SKIP LOCKED
),

cells AS (DELETE FROM throughput_sweep_cell AS cell USING old WHERE cell.sweep_id = old.id),

gone AS (DELETE FROM throughput_sweep AS sweep USING old WHERE sweep.id = old.id RETURNING 1)

SELECT count(*) FROM gone

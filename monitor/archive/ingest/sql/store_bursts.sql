-- Stores the staged bursts that are not there yet and marks their hours dirty. Returns nothing.
--
-- Rows and marks are written in the order of their keys, so that two deliveries that overlap wait for each other
-- instead of deadlocking. A mark that exists is locked, updated or not: a rollup that is just taking it away makes us
-- wait, and then the mark is new; so no rollup can take a mark without seeing the rows behind it.
WITH stored AS (
    INSERT INTO burst
    SELECT * FROM staged_burst
    ORDER BY path_id, measured_at, packet_bytes
    ON CONFLICT DO NOTHING
    RETURNING path_id, measured_at
)
INSERT INTO dirty_hour (path_id, hour, marked_at)
SELECT DISTINCT path_id, date_trunc('hour', measured_at, 'UTC') AS hour, %(now)s::timestamptz
FROM stored
ORDER BY path_id, hour
ON CONFLICT (path_id, hour) DO UPDATE SET marked_at = excluded.marked_at
WHERE excluded.marked_at < dirty_hour.marked_at

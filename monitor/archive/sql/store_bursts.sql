-- Stores the staged bursts that are not there yet and marks their hours dirty. Returns nothing.
--
-- Rows and marks are written in the order of their keys, so that two deliveries that overlap wait for each other
-- instead of deadlocking. A mark that exists is locked by updating it: a rollup that is just taking it away makes us
-- wait, and then the mark is new; so no rollup can take a mark without seeing the rows behind it.
WITH stored AS (
    INSERT INTO burst (
        path_id, measured_at, packet_bytes, outcome, sent, received, duplicates, reordered, late, ttl, ttl_changes,
        during_test, rate_limited, stamp, stamps_lost, clock_source, waited, errors, path_mtu_bytes, address, detail,
        rtts_ms
    )
    SELECT
        path_id, measured_at, packet_bytes, outcome, sent, received, duplicates, reordered, late, ttl, ttl_changes,
        during_test, rate_limited, stamp, stamps_lost, clock_source, waited, errors::jsonb, path_mtu_bytes,
        address::inet, detail, rtts_ms
    FROM staged_burst
    ORDER BY path_id, measured_at, packet_bytes
    ON CONFLICT DO NOTHING
    RETURNING path_id, measured_at
)
INSERT INTO dirty_hour (path_id, hour, marked_at)
SELECT DISTINCT path_id, date_trunc('hour', measured_at, 'UTC') AS hour, %(now)s::timestamptz
FROM stored
ORDER BY path_id, hour
ON CONFLICT (path_id, hour) DO UPDATE SET marked_at = least(dirty_hour.marked_at, excluded.marked_at)

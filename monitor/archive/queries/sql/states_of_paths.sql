-- The state of each watched path, those in use at a moment with a ping or throughput test: of these paths, or of all (null).
-- Columns: path_id, current_for_s, state, and newest_s, when its newest current data was measured (seconds since the epoch; null
-- unless that was looked for and found). A path is in the first state that applies: with a problem, in maintenance, with
-- current data, not yet measured, without data. Data is current for ten minutes or three cycles, whichever is longer: of
-- pings, of STAMP where nothing pings, and of throughput tests where neither does. Data after `until` does not count. With packet_bytes in the key's
-- condition (no + 0), without path_id in the order, or with both bounds of measured_at alone, the index by time looks cheaper
-- than the key, on a new table too, and reads the bursts of all paths for each.
WITH sizes AS (
    SELECT array_agg(DISTINCT size::integer) AS packet_bytes
    FROM test
    CROSS JOIN LATERAL jsonb_array_elements_text(
        CASE jsonb_typeof(test.parameters -> 'packet_bytes')
            WHEN 'array' THEN test.parameters -> 'packet_bytes'
            WHEN 'number' THEN jsonb_build_array(test.parameters -> 'packet_bytes')
            ELSE '[]'
        END
    ) AS size
    WHERE test.kind IN ('ping', 'tcp-ping', 'stamp')
),
watched AS MATERIALIZED (
    SELECT
        measurement.path_id, bool_or(test.kind <> 'throughput') AS is_pinged, min(measurement.started_at) AS started_at,
        greatest(
            interval '10 minutes',
            3 * make_interval(secs => coalesce(
                min(test.every_s) FILTER (WHERE test.kind IN ('ping', 'tcp-ping')),
                min(test.every_s) FILTER (WHERE test.kind = 'stamp'),
                min(test.every_s)
            ))
        ) AS current_for
    FROM measurement
    INNER JOIN test ON test.id = measurement.test_id
    INNER JOIN path ON path.id = measurement.path_id
    WHERE
        (measurement.retired_at IS NULL OR measurement.retired_at > %(now)s::timestamptz)
        AND (path.retired_at IS NULL OR path.retired_at > %(now)s::timestamptz)
        AND test.kind IN ('ping', 'tcp-ping', 'stamp', 'throughput')
        AND (%(path_ids)s::integer[] IS NULL OR measurement.path_id = ANY(%(path_ids)s::integer[]))
    GROUP BY measurement.path_id
),
maintained AS (
{maintained}
),
looked_up AS (
    SELECT
        path_id, current_for, started_at,
        CASE
            WHEN path_id = ANY(%(problems)s::integer[]) THEN 'problem'
            WHEN path_id IN (SELECT id FROM maintained) THEN 'maintenance'
        END AS state_by_place,
        CASE
            WHEN path_id = ANY(%(problems)s::integer[]) OR path_id IN (SELECT id FROM maintained) THEN NULL
            WHEN is_pinged THEN (
                SELECT measured_at
                FROM burst
                WHERE
                    burst.path_id = watched.path_id
                    AND packet_bytes + 0 = ANY((SELECT packet_bytes FROM sizes)::integer[])
                    AND measured_at >= %(now)s::timestamptz - current_for
                    AND (burst.path_id, measured_at) <= (watched.path_id, %(until)s::timestamptz)
                    AND outcome = 'measured'
                ORDER BY burst.path_id DESC, measured_at DESC
                LIMIT 1
            )
            ELSE (
                SELECT measured_at
                FROM throughput_test
                WHERE
                    throughput_test.path_id = watched.path_id
                    AND measured_at >= %(now)s::timestamptz - current_for
                    AND (throughput_test.path_id, measured_at) <= (watched.path_id, %(until)s::timestamptz)
                    AND outcome = 'measured'
                ORDER BY throughput_test.path_id DESC, measured_at DESC
                LIMIT 1
            )
        END AS newest_at
    FROM watched
    OFFSET 0
)
SELECT
    path_id, date_part('epoch', current_for) AS current_for_s,
    CASE
        WHEN state_by_place IS NOT NULL THEN state_by_place
        WHEN newest_at IS NOT NULL THEN 'normal'
        WHEN started_at > %(now)s::timestamptz - current_for THEN 'awaited'
        ELSE 'no data'
    END AS state,
    date_part('epoch', newest_at) AS newest_s
FROM looked_up

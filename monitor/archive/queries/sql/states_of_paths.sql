-- The state of each watched path, those in use at a moment with a ping or throughput test: of these paths, or of all (null).
-- Columns: path_id, current_for, state. A path is in the first state that applies: with a problem, in maintenance, with
-- current data, not yet measured, without data. Data is current for ten minutes or three cycles, whichever is longer: of
-- pings, of STAMP where nothing pings, and of throughput tests where neither does. Data after `until` does not count. With packet_bytes in the key's
-- condition (no + 0) the index by time looks cheaper than the key, and reads the bursts of all paths for each.
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
    SELECT path.id
    FROM path
    INNER JOIN host AS source ON source.id = path.source_id
    INNER JOIN host AS destination ON destination.id = path.destination_id
    WHERE
        %(quiet)s
        AND (
            %(quiet_all)s OR path.id = ANY(%(quiet_paths)s::integer[])
            OR source.site_id = ANY(%(quiet_sites)s::integer[]) OR destination.site_id = ANY(%(quiet_sites)s::integer[])
            OR EXISTS (
                SELECT FROM site_group_sites AS near
                INNER JOIN site_group_sites AS far ON far.group_id = near.group_id
                INNER JOIN site_group ON site_group.id = near.group_id AND site_group.retired_at IS NULL
                WHERE
                    near.group_id = ANY(%(quiet_groups)s::integer[])
                    AND near.site_id = source.site_id AND far.site_id = destination.site_id
            )
        )
)
SELECT
    watched.path_id, current_for,
    CASE
        WHEN watched.path_id = ANY(%(problems)s::integer[]) THEN 'problem'
        WHEN watched.path_id IN (SELECT id FROM maintained) THEN 'maintenance'
        WHEN is_pinged AND EXISTS (
            SELECT FROM burst
            WHERE
                burst.path_id = watched.path_id AND packet_bytes + 0 = ANY((SELECT packet_bytes FROM sizes)::integer[])
                AND measured_at BETWEEN %(now)s::timestamptz - current_for AND %(until)s::timestamptz
                AND outcome = 'measured'
        ) THEN 'normal'
        WHEN NOT is_pinged AND EXISTS (
            SELECT FROM throughput_test
            WHERE
                throughput_test.path_id = watched.path_id
                AND measured_at BETWEEN %(now)s::timestamptz - current_for AND %(until)s::timestamptz
                AND outcome = 'measured'
        ) THEN 'normal'
        WHEN started_at > %(now)s::timestamptz - current_for THEN 'awaited'
        ELSE 'no data'
    END AS state
FROM watched

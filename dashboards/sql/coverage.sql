-- One row for every whole hour that the period touches, measured or not, in bursts:
--   Measured           all packets sent, at least one reply
--   All lost           all packets sent, no reply: measured too, and shown apart
--   During own test    overlapped a throughput test of ours; left out of every other figure
--   Not measured       the agent says why: no such name, no permission, no route …
--   Nothing reported   due by the plan, and no result has come. Null for hours that have not ended yet.
WITH hours AS (
    SELECT hour
    FROM generate_series(
        date_trunc('hour', $__timeFrom()::timestamptz, 'UTC'),
        LEAST($__timeTo()::timestamptz, now()),
        INTERVAL '1 hour'
    ) AS hour
    WHERE hour < $__timeTo()::timestamptz
),
due AS (
    SELECT
        hours.hour,
        SUM(GREATEST(0, FLOOR(EXTRACT(EPOCH FROM
            LEAST(period.ended_at, hours.hour + INTERVAL '1 hour') - GREATEST(period.started_at, hours.hour)
        ) / period.every_s))) AS bursts
    FROM hours
    CROSS JOIN measurement_period AS period
    JOIN measurement ON measurement.id = period.measurement_id
    WHERE measurement.path_id = NULLIF(${path:sqlstring}, '')::integer
        AND NULLIF(${packet_bytes:sqlstring}, '')::integer = ANY (period.packet_bytes)
        AND hours.hour + INTERVAL '1 hour' <= now()
    GROUP BY hours.hour
)
SELECT
    hours.hour AS "time",
    (burst_hour.bursts - burst_hour.bursts_all_lost)::float8 AS "Measured",
    burst_hour.bursts_all_lost::float8 AS "All lost",
    burst_hour.bursts_during_test::float8 AS "During own test",
    burst_hour.bursts_not_measured::float8 AS "Not measured",
    CASE WHEN due.bursts IS NOT NULL THEN GREATEST(0, due.bursts - COALESCE(
        burst_hour.bursts + burst_hour.bursts_during_test + burst_hour.bursts_not_measured, 0
    ))::float8 END AS "Nothing reported"
FROM hours
LEFT JOIN due ON due.hour = hours.hour
LEFT JOIN burst_hour ON burst_hour.hour = hours.hour
    AND burst_hour.path_id = NULLIF(${path:sqlstring}, '')::integer
    AND burst_hour.packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
ORDER BY hours.hour

-- The ratio lost: a row per burst that lost packets up to two days, beyond a row per hour with loss, beyond 83 days per
-- day. Bursts that are no longer kept are shown by the hour.
WITH burst AS (
    SELECT *
    FROM reporting.burst
    WHERE $__timeTo()::timestamptz - $__timeFrom()::timestamptz <= INTERVAL '2 days'
        AND $__timeFilter(measured_at)
        AND path_id = {path}
        AND packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
)
SELECT
    measured_at AS "time",
    (sent - received)::float8 / sent AS "Lost"
FROM burst
WHERE received < sent AND NOT during_test
UNION ALL
SELECT at, (sent - received)::float8 / sent
FROM reporting.ping
WHERE tier = reporting.tier($__timeFrom(), $__timeTo())
    AND at >= reporting.start_of(reporting.tier($__timeFrom(), $__timeTo()), $__timeFrom())
    AND at < $__timeTo()::timestamptz
    AND path_id = {path}
    AND packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
    AND received < sent
    AND NOT EXISTS (SELECT FROM burst)
ORDER BY 1

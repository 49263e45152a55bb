-- The ratio lost in each direction, by STAMP tests: a row per cycle up to two days, beyond per hour, beyond 83 days per
-- day. No rows where the reflector keeps no counter. Cycles that are no longer kept are shown by the hour.
WITH cycle AS (
    SELECT *
    FROM reporting.direction_cycle
    WHERE $__timeTo()::timestamptz - $__timeFrom()::timestamptz <= INTERVAL '2 days'
        AND $__timeFilter(measured_at)
        AND path_id = NULLIF(${path:sqlstring}, '')::integer
        AND outcome = 'measured' AND NOT during_test
)
SELECT
    measured_at AS "time",
    forward_loss_ratio AS "Forward",
    reverse_loss_ratio AS "Reverse"
FROM cycle
WHERE forward_loss_ratio IS NOT NULL
UNION ALL
SELECT at, forward_loss_ratio, reverse_loss_ratio
FROM reporting.direction
WHERE tier = reporting.tier($__timeFrom(), $__timeTo())
    AND at >= reporting.start_of(reporting.tier($__timeFrom(), $__timeTo()), $__timeFrom())
    AND at < $__timeTo()::timestamptz
    AND path_id = NULLIF(${path:sqlstring}, '')::integer
    AND bursts_counted > 0
    AND NOT EXISTS (SELECT FROM cycle)
ORDER BY 1

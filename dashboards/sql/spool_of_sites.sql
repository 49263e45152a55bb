-- One row for each interval of the panel and site, in the last day of the period: results that a delivery left in the
-- agent's spool, the most.
SELECT
    $__timeGroup(received_at, $__interval) AS "time",
    site AS "metric",
    MAX(queued)::float8 AS "Results"
FROM reporting.delivery
WHERE received_at >= GREATEST($__timeFrom()::timestamptz, $__timeTo()::timestamptz - INTERVAL '1 day')
    AND received_at <= $__timeTo()::timestamptz
GROUP BY 1, 2
ORDER BY 1, 2

-- One row per five minutes, or per hour for periods longer than two days, with readings of the interfaces of the selected
-- path, bit/s: the mean of those with figures, weighted by their interval. The speed is the interface's own.
SELECT
    date_bin(
        CASE
            WHEN $__timeTo()::timestamptz - $__timeFrom()::timestamptz > interval '2 days' THEN interval '1 hour'
            ELSE interval '5 minutes'
        END,
        measured_at, '2000-01-01Z'
    ) AS "time",
    sum(in_bps * interval_s) / sum(interval_s) AS "In",
    sum(out_bps * interval_s) / sum(interval_s) AS "Out",
    max(speed_bps) AS "Speed"
FROM reporting.interface
WHERE path_id = NULLIF(${path:sqlstring}, '')::integer
    AND $__timeFilter(measured_at)
    AND in_bps IS NOT NULL AND interval_s > 0
GROUP BY 1
ORDER BY 1

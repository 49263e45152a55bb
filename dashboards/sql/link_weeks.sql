-- One row per week of the interfaces of the selected path, bit/s: the 95th percentiles of its five-minute averages.
SELECT
    (week + 7)::timestamp AT TIME ZONE 'UTC' AS "time",
    in_p95_bps AS "In, 95th percentile",
    out_p95_bps AS "Out, 95th percentile"
FROM reporting.interface_week
WHERE path_id = NULLIF(${path:sqlstring}, '')::integer
    AND $__timeFilter((week + 7)::timestamp AT TIME ZONE 'UTC')
ORDER BY 1

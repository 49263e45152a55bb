-- One row per UTC day of the period on which results of the chosen site began: how many came, and how many are missing
-- by the gaps in their numbers.
SELECT
    reporting.bar_at(day::timestamp AT TIME ZONE 'UTC', 'day', $__timeFrom(), $__timeTo()) AS "time",
    delivered::float8 AS "Delivered",
    missing::float8 AS "Missing"
FROM reporting.completeness
WHERE site = ${site:sqlstring}
    AND day >= ($__timeFrom()::timestamptz AT TIME ZONE 'UTC')::date
    AND day <= ($__timeTo()::timestamptz AT TIME ZONE 'UTC')::date
ORDER BY day

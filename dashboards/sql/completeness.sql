-- One row per site of which results came in the UTC days of the period, least complete first: results delivered and
-- missing by the gaps in its sequence numbers.
SELECT
    site AS "Site",
    SUM(delivered)::float8 AS "Delivered",
    SUM(missing)::float8 AS "Missing",
    SUM(delivered)::float8 / SUM(delivered + missing) AS "Complete"
FROM reporting.completeness
WHERE day >= ($__timeFrom()::timestamptz AT TIME ZONE 'UTC')::date
    AND day <= ($__timeTo()::timestamptz AT TIME ZONE 'UTC')::date
GROUP BY site
ORDER BY "Complete", site

-- The ratio lost: a row per interval of the panel up to two days, of a minute at least, beyond a row per hour that the period
-- touches, beyond 83 days per day; null where nothing was sent. Bursts that are no longer kept are shown by the hour.
WITH burst AS (
    SELECT
        date_bin(make_interval(secs => GREATEST($__interval_ms, 60000) / 1000.0), at, '2000-01-01Z') AS at,
        SUM(sent) AS sent,
        SUM(received) AS received
    FROM reporting.counted_burst
    WHERE $__timeTo()::timestamptz - $__timeFrom()::timestamptz <= INTERVAL '2 days'
        AND $__timeFilter(at)
        AND path_id = {path}
        AND packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
    GROUP BY 1
),
summary AS (
    SELECT at, sent, received
    FROM reporting.ping
    WHERE tier = reporting.tier($__timeFrom(), $__timeTo())
        AND at >= reporting.start_of(reporting.tier($__timeFrom(), $__timeTo()), $__timeFrom())
        AND at < $__timeTo()::timestamptz
        AND path_id = {path}
        AND packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
        AND NOT EXISTS (SELECT FROM burst)
)
SELECT
    at AS "time",
    (sent - received)::float8 / NULLIF(sent, 0) AS "Lost"
FROM burst
UNION ALL
SELECT
    reporting.bar_at(step.at, reporting.tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo()),
    (sent - received)::float8 / NULLIF(sent, 0)
FROM reporting.steps(reporting.tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo()) AS step
LEFT JOIN summary ON summary.at = step.at
WHERE EXISTS (SELECT FROM summary)
ORDER BY 1

-- Route changes of the chosen path in the reverse direction, for periods up to two days: the replies' TTL was different
-- from then on, for at least three bursts.
WITH answered AS (
    SELECT
        measured_at, ttl,
        ROW_NUMBER() OVER (ORDER BY measured_at) - ROW_NUMBER() OVER (PARTITION BY ttl ORDER BY measured_at) AS run
    FROM reporting.burst
    WHERE $__timeTo()::timestamptz - $__timeFrom()::timestamptz <= INTERVAL '2 days'
        AND $__timeFilter(measured_at)
        AND path_id = NULLIF(${path:sqlstring}, '')::integer
        AND packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
        AND ttl IS NOT NULL
),
held AS (
    SELECT MIN(measured_at) AS at, ttl, LAG(ttl) OVER (ORDER BY MIN(measured_at)) AS previous
    FROM answered
    GROUP BY ttl, run
    HAVING COUNT(*) >= 3
)
SELECT
    at AS "time",
    'Reverse route changed: TTL of replies ' || previous || ' → ' || ttl AS "text",
    'route' AS "tags"
FROM held
WHERE previous <> ttl
ORDER BY at

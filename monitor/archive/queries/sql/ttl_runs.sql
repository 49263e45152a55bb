-- One row for each run of answered bursts of this path and size in [since, until) whose replies had the same TTL left,
-- oldest first: when it began, the TTL, how many bursts. Reads raw bursts.
SELECT min(measured_at) AS at, ttl, count(*) AS bursts
FROM (
    SELECT
        measured_at, ttl,
        row_number() OVER (ORDER BY measured_at) - row_number() OVER (PARTITION BY ttl ORDER BY measured_at) AS run
    FROM burst
    WHERE
        path_id = %(path_id)s AND packet_bytes = %(packet_bytes)s
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND ttl IS NOT NULL
) AS answered
GROUP BY ttl, run
ORDER BY at

-- One row for each of these paths with a burst in [since, until) that knew the address it was sent to: the newest such
-- address. One look into the key for each path.
SELECT asked.path_id, host(newest.address) AS address
FROM unnest(%(path_ids)s::integer[]) AS asked (path_id)
CROSS JOIN LATERAL (
    SELECT address
    FROM burst
    WHERE
        burst.path_id = asked.path_id AND address IS NOT NULL
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    ORDER BY measured_at DESC
    LIMIT 1
) AS newest

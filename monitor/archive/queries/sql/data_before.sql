-- The newest hour or day of a path and packet size that begins before a moment, and whether it is an hour; no row
-- where there is none. Days outlive their hours.
SELECT at, is_hour
FROM (
    (
        SELECT hour AS at, TRUE AS is_hour
        FROM burst_hour
        WHERE path_id = %(path_id)s AND packet_bytes = %(packet_bytes)s AND hour < %(before)s
        ORDER BY hour DESC
        LIMIT 1
    )
    UNION ALL
    (
        SELECT day, FALSE
        FROM burst_day
        WHERE path_id = %(path_id)s AND packet_bytes = %(packet_bytes)s AND day < %(before)s
        ORDER BY day DESC
        LIMIT 1
    )
) AS newest
ORDER BY at DESC, is_hour DESC
LIMIT 1

-- The local addresses of the packets of a path, those of the newest burst and of the newest STAMP cycle that began in
-- [since, until) and tell them.
(
    SELECT source_address FROM burst
    WHERE
        path_id = %(path_id)s AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND source_address IS NOT NULL
    ORDER BY measured_at DESC LIMIT 1
)
UNION
(
    SELECT source_address FROM direction_burst
    WHERE
        path_id = %(path_id)s AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND source_address IS NOT NULL
    ORDER BY measured_at DESC LIMIT 1
)
ORDER BY source_address

-- The steps of step_s seconds, aligned to the epoch, of this path and size in [since, until) in which bursts began during
-- our own tests and no other burst did.
SELECT date_bin(make_interval(secs => %(step_s)s), measured_at, 'epoch') AS at
FROM burst
WHERE
    path_id = %(path_id)s AND packet_bytes = %(packet_bytes)s
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
GROUP BY at
HAVING bool_and(during_test)
ORDER BY at

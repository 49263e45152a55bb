-- The steps of step_s seconds, aligned to the epoch, of this path and size in [since, until) with packets sent during our
-- own tests and fewer than least_packets others, all of bursts that were measured.
SELECT date_bin(make_interval(secs => %(step_s)s), measured_at, 'epoch') AS at
FROM burst
WHERE
    path_id = %(path_id)s AND packet_bytes = %(packet_bytes)s
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
GROUP BY at
HAVING
    bool_or(during_test OR loaded_rtts_ms IS NOT NULL)
    AND bool_and(during_test OR outcome = 'measured')
    AND coalesce(sum(sent) FILTER (WHERE NOT during_test), 0) < %(least_packets)s
ORDER BY at

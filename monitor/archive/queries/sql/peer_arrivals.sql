-- Of each of these paths whose agent tells the packets of the far end: path_id, the cycles in [since, until) but the first,
-- whose count reaches back to before, and those of them in which a packet came.
SELECT path_id, count(*) AS cycles, count(*) FILTER (WHERE peer_packets > 0) AS with_packets
FROM (
    SELECT path_id, peer_packets, row_number() OVER (PARTITION BY path_id ORDER BY measured_at) AS place
    FROM direction_burst
    WHERE
        path_id = ANY(%(path_ids)s::integer[])
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND outcome = 'measured' AND peer_packets IS NOT NULL
) AS cycle
WHERE place > 1
GROUP BY path_id

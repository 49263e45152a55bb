-- The newest scheduled TCP tests with a rate of each of the given paths that began in [since, until), at most `most` of
-- a path, oldest first: path, congestion control, number of streams, when they began, and the rate.
SELECT path.id AS path_id, test.congestion_control, test.streams, test.measured_at AS at, test.throughput_bps
FROM unnest(%(path_ids)s::integer[]) AS path (id)
CROSS JOIN LATERAL (
    SELECT congestion_control, streams, measured_at, throughput_bps
    FROM throughput_test
    WHERE
        path_id = path.id AND protocol = 'tcp' AND throughput_bps > 0 AND test <> %(on_demand)s
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    ORDER BY measured_at DESC
    LIMIT %(most)s
) AS test
ORDER BY path.id, test.measured_at

-- One row for each TCP throughput test of each wanted path in its own period: the fields of
-- monitor.archive.queries.trends.ThroughputOfPath; the rate is null for a failed test. `place` counts the wanted paths from 0. Those
-- that somebody asked for are left out: their settings are anybody's.
SELECT wanted.place - 1 AS place, tests.measured_at AS at, tests.throughput_bps
FROM unnest(%(path_ids)s::integer[], %(since)s::timestamptz[], %(until)s::timestamptz[])
    WITH ORDINALITY AS wanted (path_id, since, until, place)
CROSS JOIN LATERAL (
    SELECT measured_at, throughput_bps
    FROM throughput_test
    WHERE
        throughput_test.path_id = wanted.path_id AND protocol = 'tcp' AND test <> 'on-demand'
        AND measured_at >= wanted.since AND measured_at < wanted.until
) AS tests
ORDER BY place, at

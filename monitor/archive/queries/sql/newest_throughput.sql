-- One row for each path (path_ids[i]) with a scheduled TCP throughput test in its window [begins[i], until): the fields of
-- monitor.archive.queries.throughput.series.NewestThroughput.
SELECT
    wanted.path_id, count(*) AS tests, count(throughput_bps) AS measured,
    (array_agg(throughput_bps ORDER BY measured_at DESC) FILTER (WHERE throughput_bps IS NOT NULL))[1]
        AS throughput_bps,
    (array_agg(outcome ORDER BY measured_at DESC))[1] AS latest_outcome
FROM unnest(%(path_ids)s::integer[], %(begins)s::timestamptz[]) AS wanted (path_id, begins)
CROSS JOIN LATERAL (
    SELECT measured_at, outcome, throughput_bps
    FROM throughput_test AS test
    WHERE
        test.path_id = wanted.path_id AND protocol = 'tcp' AND test.test <> 'on-demand'
        AND measured_at >= wanted.begins
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    OFFSET 0
) AS raw
GROUP BY wanted.path_id
ORDER BY wanted.path_id

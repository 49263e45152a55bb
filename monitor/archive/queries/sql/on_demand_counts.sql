-- One row for each path (path_ids[i]) with on-demand TCP tests, those of sweeps included, in its window
-- [begins[i], until): how many. No average counts them.
SELECT wanted.path_id, count(*) AS tests
FROM unnest(%(path_ids)s::integer[], %(begins)s::timestamptz[]) AS wanted (path_id, begins)
CROSS JOIN LATERAL (
    SELECT measured_at
    FROM throughput_test AS test
    WHERE
        test.path_id = wanted.path_id AND protocol = 'tcp' AND test.test = 'on-demand'
        AND measured_at >= wanted.begins
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    OFFSET 0
) AS raw
GROUP BY wanted.path_id
ORDER BY wanted.path_id

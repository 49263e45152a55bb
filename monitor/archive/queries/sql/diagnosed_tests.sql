-- The number of TCP tests since begins[i] on the paths of each group, measured with a diagnosis or failed, by group:
-- path_ids[i] belongs to groups[i].
SELECT wanted.grouping, count(test.measured_at) AS tests
FROM unnest(%(groups)s::integer[], %(path_ids)s::integer[], %(begins)s::timestamptz[])
    AS wanted (grouping, path_id, begins)
LEFT JOIN throughput_test AS test
    ON test.path_id = wanted.path_id AND test.measured_at >= wanted.begins AND test.protocol = 'tcp'
    AND NOT EXISTS (
        SELECT FROM undiagnosed_test AS pending
        WHERE pending.path_id = test.path_id AND pending.measured_at = test.measured_at
    )
GROUP BY wanted.grouping

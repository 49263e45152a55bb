-- The raw median delays of each of these paths with STAMP cycles in [since, until), in order of time: path_id, forward,
-- reverse.
SELECT
    path_id, array_agg(forward_median_ms ORDER BY measured_at) AS forward_ms,
    array_agg(reverse_median_ms ORDER BY measured_at) AS reverse_ms
FROM direction_burst
WHERE
    path_id = ANY(%(path_ids)s::integer[])
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    AND outcome = 'measured' AND NOT during_test AND forward_median_ms IS NOT NULL AND reverse_median_ms IS NOT NULL
GROUP BY path_id

-- Of each of these paths with STAMP cycles in [since, until) whose reflector counts: path_id, and the fields of
-- monitor.analysis.directions.DirectionLosses in their order. Cycles in the stretches left out of a path are not counted.
SELECT
    path_id, sum(sent - undecided) AS sent, sum(forward_lost) AS forward_lost, sum(reverse_lost) AS reverse_lost,
    count(*) AS bursts, count(*) FILTER (WHERE forward_lost > 0) AS forward_lossy,
    count(*) FILTER (WHERE reverse_lost > 0) AS reverse_lossy, sum(undecided) AS undecided
FROM direction_burst
WHERE
    path_id = ANY(%(path_ids)s::integer[])
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    AND outcome = 'measured' AND NOT during_test AND forward_lost IS NOT NULL
    AND NOT EXISTS (
        SELECT
        FROM
            unnest(%(left_out_paths)s::integer[], %(left_out_begins)s::timestamptz[], %(left_out_ends)s::timestamptz[])
                AS left_out (of_path, begins, ends)
        WHERE of_path = path_id AND measured_at >= begins AND measured_at < ends
    )
GROUP BY path_id

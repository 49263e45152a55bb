-- Of each of these paths with STAMP cycles in [since, until) whose reflector counts: path_id, and the fields of
-- monitor.analysis.directions.DirectionLosses in their order.
SELECT
    path_id, sum(sent - undecided) AS sent, sum(forward_lost) AS forward_lost, sum(reverse_lost) AS reverse_lost,
    count(*) AS bursts, count(*) FILTER (WHERE forward_lost > 0) AS forward_lossy,
    count(*) FILTER (WHERE reverse_lost > 0) AS reverse_lossy
FROM direction_burst
WHERE
    path_id = ANY(%(path_ids)s::integer[])
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    AND outcome = 'measured' AND NOT during_test AND forward_lost IS NOT NULL
GROUP BY path_id

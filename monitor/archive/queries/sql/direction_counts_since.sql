-- Of each path (path_ids[i]) with STAMP cycles in its window [begins[i], until) whose reflector counts: as
-- direction_counts.sql. One look into the key for each path; `since` is the earliest beginning.
WITH wanted AS MATERIALIZED (
    SELECT path_id, begins FROM unnest(%(path_ids)s::integer[], %(begins)s::timestamptz[]) AS w (path_id, begins)
)
SELECT
    wanted.path_id, sum(sent - undecided) AS sent, sum(forward_lost) AS forward_lost, sum(reverse_lost) AS reverse_lost,
    count(*) AS bursts, count(*) FILTER (WHERE forward_lost > 0) AS forward_lossy,
    count(*) FILTER (WHERE reverse_lost > 0) AS reverse_lossy
FROM wanted
CROSS JOIN LATERAL (
    SELECT sent, undecided, forward_lost, reverse_lost
    FROM direction_burst
    WHERE
        direction_burst.path_id = wanted.path_id AND measured_at >= wanted.begins
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND outcome = 'measured' AND NOT during_test AND forward_lost IS NOT NULL
) AS cycle
GROUP BY wanted.path_id

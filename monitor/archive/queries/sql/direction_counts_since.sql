-- Of each path (path_ids[i]) with STAMP cycles in its window [begins[i], until) whose reflector counts: as
-- direction_counts.sql, and the lost packets whose direction is not known, also of cycles without the counter. One look into the key for each path; `since` is the earliest beginning.
WITH wanted AS MATERIALIZED (
    SELECT path_id, begins FROM unnest(%(path_ids)s::integer[], %(begins)s::timestamptz[]) AS w (path_id, begins)
)
SELECT
    wanted.path_id, sum(sent - undecided) FILTER (WHERE forward_lost IS NOT NULL) AS sent,
    sum(forward_lost) AS forward_lost, sum(reverse_lost) FILTER (WHERE forward_lost IS NOT NULL) AS reverse_lost,
    count(forward_lost) AS bursts, count(*) FILTER (WHERE forward_lost > 0) AS forward_lossy,
    count(*) FILTER (WHERE reverse_lost > 0 AND forward_lost IS NOT NULL) AS reverse_lossy,
    sum(CASE WHEN forward_lost IS NULL THEN sent - received ELSE undecided END) AS undecided
FROM wanted
CROSS JOIN LATERAL (
    SELECT sent, received, undecided, forward_lost, reverse_lost
    FROM direction_burst
    WHERE
        direction_burst.path_id = wanted.path_id AND measured_at >= wanted.begins
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND outcome = 'measured' AND NOT during_test
) AS cycle
GROUP BY wanted.path_id
HAVING count(forward_lost) > 0

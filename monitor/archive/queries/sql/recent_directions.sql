-- One row for each path and step of step_s seconds, counted back from `until`, in which a STAMP cycle of it began whose
-- reflector counts: cycles, and packets and cycles with loss of each direction, our own tests left out.
SELECT
    path_id,
    round(date_part('epoch', %(until)s::timestamptz - begins) / %(step_s)s) - 1 AS step,
    count(*) AS bursts,
    sum(counted) AS forward_sent,
    sum(forward_lost) AS forward_lost,
    count(*) FILTER (WHERE forward_lost > 0) AS forward_lossy,
    sum(counted - forward_lost) AS reverse_sent,
    sum(reverse_lost) AS reverse_lost,
    count(*) FILTER (WHERE reverse_lost > 0) AS reverse_lossy
FROM (
    SELECT
        path_id, sent - undecided AS counted, forward_lost, reverse_lost,
        date_bin(make_interval(secs => %(step_s)s), measured_at, %(since)s::timestamptz) AS begins
    FROM direction_burst
    WHERE
        measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND outcome = 'measured' AND NOT during_test AND forward_lost IS NOT NULL
    OFFSET 0
) AS raw
GROUP BY path_id, begins

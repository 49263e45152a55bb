-- One row for each path and step of step_s seconds, counted back from `until`, in which a STAMP cycle of it began, our
-- own tests left out: cycles whose reflector counts, and their packets and cycles with loss of each direction; and when
-- (seconds since the epoch) the newest cycle with delays of both directions began.
SELECT
    path_id,
    round(date_part('epoch', %(until)s::timestamptz - begins) / %(step_s)s) - 1 AS step,
    count(forward_lost) AS bursts,
    sum(counted) FILTER (WHERE forward_lost IS NOT NULL) AS forward_sent,
    sum(forward_lost) AS forward_lost,
    count(*) FILTER (WHERE forward_lost > 0) AS forward_lossy,
    sum(counted - forward_lost) AS reverse_sent,
    sum(reverse_lost) FILTER (WHERE forward_lost IS NOT NULL) AS reverse_lost,
    count(*) FILTER (WHERE reverse_lost > 0 AND forward_lost IS NOT NULL) AS reverse_lossy,
    date_part('epoch', max(measured_at) FILTER (WHERE has_delays)) AS delayed_s
FROM (
    SELECT
        path_id, measured_at, sent - undecided AS counted, forward_lost, reverse_lost,
        forward_median_ms IS NOT NULL AND reverse_median_ms IS NOT NULL AS has_delays,
        date_bin(make_interval(secs => %(step_s)s), measured_at, %(since)s::timestamptz) AS begins
    FROM direction_burst
    WHERE
        measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND outcome = 'measured' AND NOT during_test
    OFFSET 0
) AS raw
GROUP BY path_id, begins

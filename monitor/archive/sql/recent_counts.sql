-- One row for each path and step of step_s seconds, counted back from `until`, in which a burst of it began: counts of
-- measured bursts, our own tests left out, packet sizes pooled; and when (seconds since the epoch) the newest burst was
-- tried, was measured, was answered. Reads raw bursts.
SELECT
    path_id,
    ceil(extract(epoch FROM (%(until)s::timestamptz - measured_at)) / %(step_s)s) - 1 AS step,
    count(*) FILTER (WHERE counts) AS bursts,
    sum(sent) FILTER (WHERE counts) AS sent,
    sum(received) FILTER (WHERE counts) AS received,
    count(*) FILTER (WHERE counts AND received < sent) AS lossy,
    count(*) FILTER (WHERE counts AND reordered > 0) AS reordered,
    count(*) FILTER (WHERE counts AND duplicates > 0) AS duplicated,
    extract(epoch FROM max(measured_at)) AS tried_s,
    extract(epoch FROM max(measured_at) FILTER (WHERE outcome = 'measured')) AS measured_s,
    extract(epoch FROM max(measured_at) FILTER (WHERE received > 0)) AS answered_s
FROM (
    SELECT *, outcome = 'measured' AND NOT during_test AS counts
    FROM burst
    WHERE
        measured_at >= %(until)s::timestamptz - make_interval(secs => %(step_s)s * %(steps)s)
        AND measured_at < %(until)s::timestamptz
) AS raw
GROUP BY path_id, step

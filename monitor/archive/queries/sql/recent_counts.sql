-- One row for each path and step of step_s seconds from `since` on, in which a burst of it began: its begin, counts of
-- measured bursts, our own tests left out, packet sizes pooled; and when (seconds since the epoch) the newest burst was
-- tried, was measured, was answered, was counted. Reads raw bursts. OFFSET 0 has the conditions worked out once a burst, not once an
-- aggregate; date_part is in floating point, extract in decimal.
-- The part of_paths is a condition on the path, or empty.
SELECT
    path_id,
    date_part('epoch', begins) AS begins_s,
    count(*) FILTER (WHERE counts) AS bursts,
    sum(sent) FILTER (WHERE counts) AS sent,
    sum(received) FILTER (WHERE counts) AS received,
    count(*) FILTER (WHERE counts AND received < sent) AS lossy,
    count(*) FILTER (WHERE counts AND reordered > 0) AS reordered,
    count(*) FILTER (WHERE counts AND duplicates > 0) AS duplicated,
    date_part('epoch', max(measured_at)) AS tried_s,
    date_part('epoch', max(measured_at) FILTER (WHERE was_measured)) AS measured_s,
    date_part('epoch', max(measured_at) FILTER (WHERE was_answered)) AS answered_s,
    date_part('epoch', max(measured_at) FILTER (WHERE counts)) AS counted_s
FROM (
    SELECT
        path_id, measured_at, sent, received, reordered, duplicates,
        date_bin(make_interval(secs => %(step_s)s), measured_at, %(since)s::timestamptz) AS begins,
        outcome = 'measured' AS was_measured,
        received > 0 OR coalesce(cardinality(array_remove(loaded_rtts_ms, NULL)), 0) > 0 AS was_answered,
        outcome = 'measured' AND NOT during_test AS counts
    FROM burst
    WHERE measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz{of_paths}
    OFFSET 0
) AS raw
GROUP BY path_id, begins

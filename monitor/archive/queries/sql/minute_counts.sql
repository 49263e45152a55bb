-- One row for each path and minute (since the epoch) of [since, until) in which a burst of it began: the columns of
-- recent_counts. {of_paths} is a condition on the path, or empty.
SELECT
    path_id,
    minute,
    count(*) FILTER (WHERE counts) AS bursts,
    sum(sent) FILTER (WHERE counts) AS sent,
    sum(received) FILTER (WHERE counts) AS received,
    count(*) FILTER (WHERE counts AND received < sent) AS lossy,
    count(*) FILTER (WHERE counts AND reordered > 0) AS reordered,
    count(*) FILTER (WHERE counts AND duplicates > 0) AS duplicated,
    max(at_s) AS tried_s,
    max(at_s) FILTER (WHERE was_measured) AS measured_s,
    max(at_s) FILTER (WHERE was_answered) AS answered_s
FROM (
    SELECT
        path_id, at_s, floor(at_s / 60) AS minute, sent, received, reordered, duplicates,
        outcome = 'measured' AS was_measured,
        received > 0 OR coalesce(cardinality(array_remove(loaded_rtts_ms, NULL)), 0) > 0 AS was_answered,
        outcome = 'measured' AND NOT during_test AS counts
    FROM burst, date_part('epoch', measured_at) AS at_s
    WHERE measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz{of_paths}
    OFFSET 0
) AS raw
GROUP BY path_id, minute

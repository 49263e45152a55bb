-- One row for each path with a burst that was measured in [since, until) and not during our own tests, packet sizes
-- pooled: the fields of monitor.archive.queries.paths.LossWindow. Reads raw bursts.
SELECT
    path_id, count(*) AS bursts, sum(sent) AS sent, sum(received) AS received,
    count(*) FILTER (WHERE received < sent) AS lossy_bursts
FROM burst
WHERE
    measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    AND outcome = 'measured' AND NOT during_test
    AND (%(path_ids)s::integer[] IS NULL OR path_id = ANY(%(path_ids)s::integer[]))
GROUP BY path_id
ORDER BY path_id

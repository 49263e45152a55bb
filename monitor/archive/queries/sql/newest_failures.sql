-- One row for each of these paths with a burst in [since, until) that could not be measured: the newest of them, with
-- the fields of monitor.archive.queries.paths.BurstFailure.
SELECT DISTINCT ON (path_id) path_id, measured_at AS at, outcome, detail
FROM burst
WHERE
    path_id = ANY(%(path_ids)s::integer[]) AND outcome <> 'measured'
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
ORDER BY path_id, measured_at DESC

-- One row for each of the given paths with a capacity that was measured in [since, until): the fields of
-- monitor.archive.queries.for_reports.Capacity.
SELECT
    path_id, count(*) AS measured, percentile_cont(0.5) WITHIN GROUP (ORDER BY capacity_bps) AS capacity_bps
FROM capacity_result
WHERE
    path_id = ANY(%(path_ids)s::integer[]) AND capacity_bps IS NOT NULL AND NOT during_test
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
GROUP BY path_id
ORDER BY path_id

-- The five-minute averages of a path's interface test in [since, until), oldest first: the fields of
-- monitor.archive.queries.throughput.interfaces.InterfaceAverage. Errors and drops are those of both directions.
SELECT
    to_timestamp(300 * floor((extract(epoch FROM measured_at) - interval_s / 2) / 300)) AS at,
    sum(in_bps * interval_s) / sum(interval_s) AS in_bps,
    sum(out_bps * interval_s) / sum(interval_s) AS out_bps,
    sum(coalesce(in_errors, 0) + coalesce(out_errors, 0))::bigint AS errors,
    sum(coalesce(in_drops, 0) + coalesce(out_drops, 0))::bigint AS drops,
    bool_or(during_test) AS during_test
FROM interface_result
WHERE
    path_id = %(path_id)s AND test = %(test)s AND measured_at >= %(since)s::timestamptz
    AND measured_at < %(until)s::timestamptz AND in_bps IS NOT NULL AND interval_s > 0
GROUP BY 1
ORDER BY 1

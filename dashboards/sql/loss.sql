-- One row per hour in which packets were sent, or a day beyond 83 days: the ratio lost, pooled. Without loss in N
-- packets the ratio is null and the upper 95% bound 3/N (at most 1) stands in its own column, since no loss seen is not
-- no loss.
SELECT
    at AS "time",
    CASE WHEN received < sent THEN (sent - received)::float8 / sent END AS "Lost",
    CASE WHEN received = sent THEN reporting.loss_bound_ratio(sent) END AS "No loss: upper bound 3/N"
FROM reporting.ping
WHERE tier = reporting.tier($__timeFrom(), $__timeTo())
    AND at >= reporting.start_of(reporting.tier($__timeFrom(), $__timeTo()), $__timeFrom())
    AND at < $__timeTo()::timestamptz
    AND path_id = NULLIF(${path:sqlstring}, '')::integer
    AND packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
    AND sent > 0
ORDER BY at

-- One row per hour without loss, or a day beyond 83 days: the upper 95% bound 3/N (at most 1), since no loss seen is not
-- no loss.
SELECT
    GREATEST(at, $__timeFrom()) AS "time",
    reporting.loss_bound_ratio(sent) AS "No loss: upper bound 3/N"
FROM reporting.ping
WHERE tier = reporting.tier($__timeFrom(), $__timeTo())
    AND at >= reporting.start_of(reporting.tier($__timeFrom(), $__timeTo()), $__timeFrom())
    AND at < $__timeTo()::timestamptz
    AND path_id = {path}
    AND packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
    AND sent > 0 AND received = sent
ORDER BY 1

-- One row an hour in which packets were sent: the ratio lost, pooled over the hour. Where none of N was lost the ratio
-- is null and the upper 95% bound 3/N (at most 1) stands in its own column, since no loss seen is not no loss.
SELECT
    hour AS "time",
    CASE WHEN received < sent THEN (sent - received)::float8 / sent END AS "Lost",
    CASE WHEN received = sent THEN LEAST(3.0::float8 / sent, 1) END AS "None lost: below 3/N"
FROM burst_hour
WHERE path_id = NULLIF(${path:sqlstring}, '')::integer
    AND packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
    AND hour > $__timeFrom()::timestamptz - INTERVAL '1 hour' AND hour < $__timeTo()::timestamptz
    AND sent > 0
ORDER BY hour

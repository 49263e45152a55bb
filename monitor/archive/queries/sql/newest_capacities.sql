-- The newest capacity measurement of this path that began in [since, until) and, where that is another, the newest that
-- found a capacity; newest first: the fields of monitor.archive.queries.throughput.series.CapacityPoint.
WITH began AS (
    SELECT
        measured_at AS at, test, outcome, verdict, capacity_bps, capacity_low_bps, capacity_high_bps, packet_bytes,
        sent, received, method, during_test, detail
    FROM capacity_result
    WHERE
        path_id = %(path_id)s
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
)

(SELECT * FROM began ORDER BY at DESC LIMIT 1)
UNION
(SELECT * FROM began WHERE capacity_bps IS NOT NULL ORDER BY at DESC LIMIT 1)
ORDER BY at DESC

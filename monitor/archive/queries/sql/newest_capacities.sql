-- The newest capacity measurement of this path that began in [since, until) and, where that is another, the newest that
-- found a capacity; newest first. Columns: the fields of monitor.archive.kinds.capacity.KIND.point.
WITH began AS (
    SELECT {columns}
    FROM (SELECT capacity_result.*, measured_at AS at FROM capacity_result) AS result
    WHERE path_id = %(path_id)s AND at >= %(since)s::timestamptz AND at < %(until)s::timestamptz
)

(SELECT * FROM began ORDER BY at DESC LIMIT 1)
UNION
(SELECT * FROM began WHERE capacity_bps IS NOT NULL ORDER BY at DESC LIMIT 1)
ORDER BY at DESC

-- The results of this path in the table of a kind that began in [since, until), whatever their outcome. At most so many,
-- null for all. Columns: the fields of ResultKind.point of monitor.archive.kinds.kind.
SELECT {columns}
FROM (SELECT {table}.*, measured_at AS at FROM {table}) AS result
WHERE path_id = %(path_id)s AND at >= %(since)s::timestamptz AND at < %(until)s::timestamptz
ORDER BY at {order}
LIMIT %(most)s::bigint

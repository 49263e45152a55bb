-- One row for each table: the fields of monitor.archive.upkeep.growth.TableSize. Rows are the planner's estimate, and before the
-- first ANALYZE of a table what the statistics counted; the chunks of a
-- hypertable are tables that inherit from it. Growth is since the oldest note of the last week, at least an hour ago.
WITH size AS (
    {sizes_now}
)

SELECT
    size.name,
    size.row_estimate,
    size.total_bytes,
    size.chunks,
    ((size.row_estimate - noted.row_estimate) / noted.days)::float8 AS rows_per_day,
    ((size.total_bytes - noted.total_bytes) / noted.days)::float8 AS bytes_per_day
FROM size
LEFT JOIN LATERAL (
    SELECT row_estimate, total_bytes, extract(epoch FROM %(now)s::timestamptz - at) / 86400 AS days
    FROM table_size
    WHERE
        table_size.name = size.name
        AND at >= %(now)s::timestamptz - interval '7 days' AND at <= %(now)s::timestamptz - interval '1 hour'
    ORDER BY at
    LIMIT 1
) AS noted ON TRUE
ORDER BY size.name

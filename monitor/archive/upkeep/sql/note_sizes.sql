-- Notes how large each table is at a moment, as sizes_now.sql counts it.
INSERT INTO table_size (name, at, row_estimate, total_bytes)
SELECT name, %(now)s::timestamptz, row_estimate, total_bytes
FROM (
    {sizes_now}
) AS size
ON CONFLICT DO NOTHING

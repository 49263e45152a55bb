-- One row for each table of the archive: the fields of monitor.archive.status.TableSize. The rows are the planner's
-- estimate; the chunks of a hypertable are tables that inherit from it.
SELECT
    parent.relname AS name,
    sum(greatest(part.reltuples, 0))::bigint AS row_estimate,
    sum(pg_total_relation_size(part.oid))::bigint AS total_bytes,
    count(*) FILTER (WHERE part.oid <> parent.oid) AS chunks
FROM pg_class AS parent
INNER JOIN pg_class AS part
    ON part.oid = parent.oid OR part.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = parent.oid)
WHERE
    parent.relkind = 'r' AND parent.relnamespace = current_schema()::regnamespace
    AND parent.relname IN (
        'burst', 'throughput_test', 'disk_to_disk_test', 'capacity_result', 'burst_hour', 'burst_day', 'burst_month',
        'burst_year', 'throughput_hour', 'throughput_day', 'throughput_month', 'throughput_year', 'dirty_hour', 'dirty_summary',
        'received_batch', 'refused_result', 'delivered_day'
    )
GROUP BY parent.relname
ORDER BY parent.relname

-- Notes how large each table is at a moment, as table_sizes.sql counts it.
INSERT INTO table_size (name, at, row_estimate, total_bytes)
SELECT name, %(now)s::timestamptz, row_estimate, total_bytes
FROM (
    SELECT
        parent.relname AS name,
        sum(
            CASE WHEN part.reltuples >= 0 THEN part.reltuples ELSE pg_stat_get_live_tuples(part.oid) END
        )::bigint AS row_estimate,
        sum(pg_total_relation_size(part.oid))::bigint AS total_bytes,
        count(*) FILTER (WHERE part.oid <> parent.oid) AS chunks
    FROM pg_class AS parent
    INNER JOIN pg_class AS part
        ON part.oid = parent.oid OR part.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = parent.oid)
    WHERE
        parent.relkind = 'r' AND parent.relpersistence = 'p' AND parent.relnamespace = current_schema()::regnamespace
    GROUP BY parent.relname
) AS size
ON CONFLICT DO NOTHING

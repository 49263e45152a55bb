-- A part of note_sizes.sql and table_sizes.sql: rows, bytes and chunks of each table now.
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

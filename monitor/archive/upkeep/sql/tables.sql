-- One row for each table of this database that belongs to no extension and to no system: its name.
SELECT relname AS name
FROM pg_class
INNER JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE
    relkind IN ('r', 'p')
    AND nspname NOT IN ('pg_catalog', 'information_schema') AND nspname NOT LIKE 'pg\_%%'
    AND NOT EXISTS (
        SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid AND deptype = 'e'
    )
ORDER BY relname

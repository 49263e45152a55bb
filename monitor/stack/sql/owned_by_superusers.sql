-- One row for each object of this database that a superuser owns and that belongs to no extension and to no system:
-- its kind, as ALTER calls it, and its name. Indexes, a table's own sequences and chunks follow their table.
WITH member AS (SELECT classid, objid FROM pg_depend WHERE deptype = 'e'),
superuser AS (SELECT oid FROM pg_roles WHERE rolsuper),
namespace AS (
    SELECT oid, nspname, nspowner FROM pg_namespace
    WHERE
        nspname <> 'information_schema' AND nspname NOT LIKE 'pg\_%'
        AND ('pg_namespace'::regclass, oid) NOT IN (SELECT classid, objid FROM member)
)
SELECT 'SCHEMA' AS kind, format('%I', nspname) AS name
FROM namespace WHERE nspowner IN (SELECT oid FROM superuser)
UNION ALL
SELECT 'TABLE', format('%I.%I', nspname, relname)
FROM pg_class AS relation INNER JOIN namespace ON namespace.oid = relnamespace
WHERE
    relowner IN (SELECT oid FROM superuser) AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
    AND ('pg_class'::regclass, relation.oid) NOT IN (SELECT classid, objid FROM member)
    AND NOT EXISTS (
        SELECT FROM pg_depend
        WHERE relkind = 'S' AND classid = 'pg_class'::regclass AND objid = relation.oid AND deptype IN ('a', 'i')
    )
UNION ALL
SELECT 'ROUTINE', format('%I.%I(%s)', nspname, proname, pg_get_function_identity_arguments(routine.oid))
FROM pg_proc AS routine INNER JOIN namespace ON namespace.oid = pronamespace
WHERE
    proowner IN (SELECT oid FROM superuser)
    AND ('pg_proc'::regclass, routine.oid) NOT IN (SELECT classid, objid FROM member)
UNION ALL
SELECT 'TYPE', format('%I.%I', nspname, typname)
FROM pg_type AS type INNER JOIN namespace ON namespace.oid = typnamespace
LEFT JOIN pg_class AS relation ON relation.oid = typrelid
WHERE
    typowner IN (SELECT oid FROM superuser) AND (typtype IN ('d', 'e', 'r') OR relkind = 'c')
    AND ('pg_type'::regclass, type.oid) NOT IN (SELECT classid, objid FROM member)

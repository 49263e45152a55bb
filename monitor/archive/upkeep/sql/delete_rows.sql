-- Deletes up to %(most)s rows of {table} that the condition is true for; those that somebody has locked are left. One row:
-- how many went.
WITH gone AS (
    DELETE FROM {table}
    WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM {table}
        WHERE {condition}
        LIMIT %(most)s
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING 1
)
SELECT count(*) FROM gone

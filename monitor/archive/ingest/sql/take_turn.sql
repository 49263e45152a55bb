-- Bounds every wait of this transaction, then waits until no other transaction has the turn of the site. The planner may not
-- reorder a materialised query and what reads it.
WITH bounds AS MATERIALIZED (
    SELECT
        set_config('lock_timeout', %(lock_timeout)s, TRUE) AS lock_timeout,
        set_config('statement_timeout', %(statement_timeout)s, TRUE) AS statement_timeout
)
SELECT pg_advisory_xact_lock(hashtext('soundings.ingest'), %(site_id)s) FROM bounds

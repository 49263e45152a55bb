-- One row where the chosen site has an agent: how it was at its newest delivery that was accepted.
SELECT
    EXTRACT(EPOCH FROM now() - accepted_at)::float8 AS "Last delivery",
    agent_version AS "Version",
    queued::float8 AS "Results in its spool",
    dropped::float8 AS "Results dropped ever",
    clock_offset_s AS "Clock off by",
    lost_cycles::float8 AS "Cycles lost",
    load_1min AS "Load"
FROM reporting.agent
WHERE site = ${site:sqlstring}

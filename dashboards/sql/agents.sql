-- One row a site with an agent, the longest silent first: how its agent was at its newest delivery that was accepted.
SELECT
    site AS "Site",
    EXTRACT(EPOCH FROM now() - accepted_at)::float8 AS "Last delivery",
    agent_version AS "Version",
    queued::float8 AS "Queued",
    dropped::float8 AS "Dropped",
    set_aside::float8 AS "Set aside",
    lost_cycles::float8 AS "Cycles lost",
    clock_offset_s AS "Clock off by",
    CASE clock_is_synchronised WHEN true THEN 'yes' WHEN false THEN 'no' END AS "Clock is kept",
    load_1min AS "Load",
    cpus::float8 AS "CPUs"
FROM reporting.agent
ORDER BY accepted_at NULLS FIRST, site

-- One row per site with an agent, the longest silent first: state of its agent at its latest accepted delivery.
SELECT
    site AS "Site",
    EXTRACT(EPOCH FROM now() - accepted_at)::float8 AS "Last delivery",
    agent_version AS "Version",
    queued::float8 AS "Backlog",
    dropped::float8 AS "Dropped",
    set_aside::float8 AS "Quarantined",
    lost_cycles::float8 AS "Missed cycles",
    clock_offset_s AS "Clock offset",
    CASE clock_is_synchronised WHEN true THEN 'yes' WHEN false THEN 'no' END AS "Clock synchronised",
    load_1min AS "Load",
    cpus::float8 AS "CPUs"
FROM reporting.agent
ORDER BY accepted_at NULLS FIRST, site

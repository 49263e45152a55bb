-- One row where the chosen site has an agent: its state at its latest accepted delivery.
SELECT
    EXTRACT(EPOCH FROM now() - accepted_at)::float8 AS "Last delivery",
    agent_version AS "Version",
    queued::float8 AS "Backlog",
    dropped::float8 AS "Dropped (total)",
    clock_offset_s AS "Clock offset",
    lost_cycles::float8 AS "Missed cycles",
    load_1min AS "Load"
FROM reporting.agent
WHERE site = ${site:sqlstring}

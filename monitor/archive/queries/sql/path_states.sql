-- How many watched paths, those in use with a ping or throughput test, are in each state, as the fields of
-- monitor.archive.queries.path_states.PathCounts. One look into the key for each path, by
-- states_of_paths.sql: without MATERIALIZED there is one for each count below.
WITH in_state AS MATERIALIZED (
{states}
)
SELECT
    count(*) AS paths,
    count(*) FILTER (WHERE state = 'problem') AS with_problems,
    count(*) FILTER (WHERE state = 'maintenance') AS in_maintenance,
    count(*) FILTER (WHERE state = 'normal') AS normal,
    count(*) FILTER (WHERE state = 'awaited') AS awaited,
    count(*) FILTER (WHERE state = 'no data') AS without_data,
    min(current_for_s) FILTER (WHERE state = 'no data') AS without_data_s
FROM in_state

-- Adds numbers of cycles to those of a path's test that ended alike on a day: each with the paths, as text of an array, that it
-- ended so for. Adding again changes nothing. In the order of the keys, so that two deliveries wait for each other instead of
-- deadlocking.
INSERT INTO cycle_day (path_id, test, every_s, day, outcome, cycles)
SELECT path_id, test, every_s, day, outcome, range_agg(int8range(cycle, cycle + 1))
FROM unnest(
    %(path_ids)s::text[], %(tests)s::text[], %(every_s)s::integer[], %(days)s::date[], %(outcomes)s::text[],
    %(cycles)s::bigint[]
) AS came (path_ids, test, every_s, day, outcome, cycle)
CROSS JOIN LATERAL unnest(came.path_ids::integer[]) AS of_cycle (path_id)
GROUP BY path_id, test, every_s, day, outcome
ORDER BY path_id, test, every_s, day, outcome
ON CONFLICT (path_id, test, every_s, day, outcome) DO UPDATE SET cycles = cycle_day.cycles + excluded.cycles
WHERE NOT cycle_day.cycles @> excluded.cycles

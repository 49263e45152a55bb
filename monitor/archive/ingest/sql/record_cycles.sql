-- Adds numbers of cycles, as text of ranges, to those of a path's test that ended alike on a day. Adding again changes
-- nothing. In the order of the keys, so that two deliveries wait for each other instead of deadlocking.
INSERT INTO cycle_day (path_id, test, every_s, day, outcome, cycles)
SELECT path_id, test, every_s, day, outcome, cycles::int8multirange
FROM unnest(
    %(path_ids)s::integer[], %(tests)s::text[], %(every_s)s::integer[], %(days)s::date[], %(outcomes)s::text[],
    %(cycles)s::text[]
) AS came (path_id, test, every_s, day, outcome, cycles)
ORDER BY path_id, test, every_s, day, outcome
ON CONFLICT (path_id, test, every_s, day, outcome) DO UPDATE SET cycles = cycle_day.cycles + excluded.cycles
WHERE NOT cycle_day.cycles @> excluded.cycles

-- One row: age of the oldest pending hourly rollup, s; 0 where none is pending.
SELECT COALESCE(EXTRACT(EPOCH FROM now() - MIN(since)), 0)::float8 AS waited_s
FROM reporting.waiting
WHERE tier = 'hour'

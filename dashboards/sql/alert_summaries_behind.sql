-- One row: how long the longest waiting hour has waited for its summary, s; 0 where none waits.
SELECT COALESCE(EXTRACT(EPOCH FROM now() - MIN(since)), 0)::float8 AS waited_s
FROM reporting.waiting
WHERE tier = 'hour'

-- One row: how long ago the worker last noted how the centre is, as beat has it do each minute, s.
SELECT EXTRACT(EPOCH FROM now() - MAX(at))::float8 AS stopped_s
FROM reporting.centre
HAVING MAX(at) IS NOT NULL

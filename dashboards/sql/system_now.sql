-- One row: state of the centre. Overdue rollups waited for longer than they should, so that running hours and days do
-- not count. Ages in seconds; the last sign of beat and worker is their newest sample.
SELECT
    EXTRACT(EPOCH FROM now() - MAX(at))::float8 AS "Beat and worker",
    (SELECT EXTRACT(EPOCH FROM now() - MAX(accepted_at))::float8 FROM reporting.agent) AS "Latest delivery",
    (SELECT COALESCE(SUM(overdue), 0)::float8 FROM reporting.waiting) AS "Overdue rollups",
    (SELECT SUM(queued)::float8 FROM reporting.agent) AS "Backlog",
    (SELECT database_bytes::float8 FROM reporting.centre ORDER BY at DESC LIMIT 1) AS "Database"
FROM reporting.centre

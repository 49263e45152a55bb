-- One row: how the centre is now. Ages in seconds; the last sign of beat and worker is their newest sample.
SELECT
    EXTRACT(EPOCH FROM now() - MAX(at))::float8 AS "Beat and worker",
    (SELECT EXTRACT(EPOCH FROM now() - MAX(accepted_at))::float8 FROM reporting.agent) AS "Newest delivery",
    (SELECT COALESCE(SUM(summaries), 0)::float8 FROM reporting.waiting) AS "Summaries that wait",
    (SELECT SUM(queued)::float8 FROM reporting.agent) AS "Results in spools",
    (SELECT database_bytes::float8 FROM reporting.centre ORDER BY at DESC LIMIT 1) AS "Database"
FROM reporting.centre

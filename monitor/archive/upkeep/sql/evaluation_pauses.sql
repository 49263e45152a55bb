-- Pauses of the evaluation of the alert rules that overlap [since, until), oldest first: the fields of
-- monitor.archive.upkeep.freshness.EvaluationPause. The last one may be open: its until is null. A sample of an earlier
-- release stands for an evaluation, since the same worker makes both. Without any evaluation the mesh's age is the pause.
WITH evaluation AS (
    SELECT coalesce(evaluated_at, at) AS at FROM centre_sample
    UNION
    SELECT at FROM last_run WHERE name = 'evaluation'
),

pause AS (
    SELECT at AS since, lead(at) OVER (ORDER BY at) AS until FROM evaluation

    UNION ALL

    SELECT applied_at AS since, NULL AS until
    FROM mesh
    WHERE NOT EXISTS (SELECT FROM evaluation)
)

SELECT since, until
FROM pause
WHERE
    since < %(until)s::timestamptz
    AND (until IS NULL OR until > %(since)s::timestamptz)
    AND coalesce(until, %(until)s::timestamptz) - since > %(least)s::interval
ORDER BY since

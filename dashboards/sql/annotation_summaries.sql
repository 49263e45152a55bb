-- One row where results wait for longer than they should for a summary that the figures of the period are of: from the
-- arrival of the oldest to now, as figures lack those delivered since.
SELECT
    MIN(since) AS "time",
    LEAST($__timeTo()::timestamptz, now()) AS "timeEnd",
    'Figures of whole ' || MIN(tier) || 's are as of ' || to_char(MIN(since) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC' AS "text",
    'summaries' AS "tags"
FROM reporting.waiting
WHERE tier = reporting.pooled_tier($__timeFrom(), $__timeTo()) AND overdue > 0
    AND NOT (reporting.is_short($__timeFrom(), $__timeTo()) AND reporting.keeps_bursts($__timeTo()))
HAVING MIN(since) < $__timeTo()::timestamptz

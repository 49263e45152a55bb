-- One row where results have waited for their hourly summary for more than a minute: from the arrival of the oldest to
-- now, as figures of hours and longer lack those delivered since.
SELECT
    MIN(since) AS "time",
    LEAST($__timeTo()::timestamptz, now()) AS "timeEnd",
    'Figures of hours and longer are as of ' || to_char(MIN(since) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC' AS "text",
    'summaries' AS "tags"
FROM reporting.waiting
WHERE tier = 'hour'
HAVING MIN(since) < LEAST($__timeTo()::timestamptz, now() - INTERVAL '1 minute')

-- One row for each tier of which summaries wait to be computed: its name, how many, and since when the longest.
SELECT 'hour' AS tier, count(*) AS summaries, min(marked_at) AS since
FROM dirty_hour
HAVING count(*) > 0
UNION ALL
SELECT tier, count(*) AS summaries, min(marked_at) AS since
FROM dirty_summary
GROUP BY tier

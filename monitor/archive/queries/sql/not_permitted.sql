-- One row: how many paths the limits of their sites do not permit to measure, by bursts that began in [since, until), and
-- the rule against the newest of them; null without any. Paths with a burst of another outcome later are not left out:
-- this is asked where no path has any.
SELECT count(DISTINCT path_id) AS paths, (array_agg(detail ORDER BY measured_at DESC))[1] AS rule
FROM burst
WHERE
    outcome = 'not_permitted'
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz

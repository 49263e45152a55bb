-- One row for each path with bursts in the days of [since, hours_since) or the hours of [hours_since, until): counts over
-- all of it, packet sizes pooled; how the hours scatter (hours, their bursts, and of each event its count and the sum of
-- its square over the bursts); and the bursts and lossy bursts of the hours `season`.
WITH hourly AS (
    SELECT
        path_id, hour, sum(bursts) AS bursts, sum(sent) AS sent, sum(received) AS received,
        sum(bursts - bursts_none_lost) AS lossy, sum(bursts_reordered) AS reordered,
        sum(bursts_duplicated) AS duplicated
    FROM burst_hour
    WHERE hour >= %(hours_since)s::timestamptz AND hour < %(until)s::timestamptz
    GROUP BY path_id, hour
    HAVING sum(bursts) > 0
),
hours AS (
    SELECT
        path_id, count(*) AS hours, sum(bursts) AS bursts, sum(sent) AS sent, sum(received) AS received,
        sum(lossy) AS lossy, sum(reordered) AS reordered, sum(duplicated) AS duplicated,
        sum(lossy::double precision * lossy / bursts) AS lossy_squares,
        sum(reordered::double precision * reordered / bursts) AS reordered_squares,
        sum(duplicated::double precision * duplicated / bursts) AS duplicated_squares
    FROM hourly
    GROUP BY path_id
),
days AS (
    SELECT
        path_id, sum(bursts) AS bursts, sum(sent) AS sent, sum(received) AS received,
        sum(bursts - bursts_none_lost) AS lossy, sum(bursts_reordered) AS reordered,
        sum(bursts_duplicated) AS duplicated
    FROM burst_day
    WHERE day >= %(since)s::timestamptz AND day < %(hours_since)s::timestamptz
    GROUP BY path_id
),
season AS (
    SELECT path_id, sum(bursts) AS bursts, sum(bursts - bursts_none_lost) AS lossy
    FROM burst_hour
    WHERE hour = ANY(%(season)s::timestamptz[])
    GROUP BY path_id
)
SELECT
    path_id,
    coalesce(hours.bursts, 0) + coalesce(days.bursts, 0) AS bursts,
    coalesce(hours.sent, 0) + coalesce(days.sent, 0) AS sent,
    coalesce(hours.received, 0) + coalesce(days.received, 0) AS received,
    coalesce(hours.lossy, 0) + coalesce(days.lossy, 0) AS lossy,
    coalesce(hours.reordered, 0) + coalesce(days.reordered, 0) AS reordered,
    coalesce(hours.duplicated, 0) + coalesce(days.duplicated, 0) AS duplicated,
    coalesce(hours.hours, 0) AS hours,
    coalesce(hours.bursts, 0) AS hours_bursts,
    coalesce(hours.lossy, 0) AS hours_lossy,
    coalesce(hours.reordered, 0) AS hours_reordered,
    coalesce(hours.duplicated, 0) AS hours_duplicated,
    coalesce(hours.lossy_squares, 0) AS lossy_squares,
    coalesce(hours.reordered_squares, 0) AS reordered_squares,
    coalesce(hours.duplicated_squares, 0) AS duplicated_squares,
    coalesce(season.bursts, 0) AS season_bursts,
    coalesce(season.lossy, 0) AS season_lossy
FROM hours
FULL JOIN days USING (path_id)
LEFT JOIN season USING (path_id)

-- One row for each path with bursts in the days of [since, hours_since) or the hours of [hours_since, until): counts over
-- all of it, packet sizes pooled; how the hours scatter (hours, their bursts, and of each event its count and the sum of
-- its square over the bursts); and the bursts and lossy bursts of the hours `season`. All without the hours left out
-- (path left_out_paths[i], hours since the epoch from left_out_first[i] up to left_out_end[i]): their counts are taken
-- off those of their days; without stored hours, the day is. A path with more than `most_left_out` of its bursts in them
-- keeps all. Hours of the season are left out only if they are of a single week.
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
),
{left_out},
left_out_counts AS (
    SELECT
        path_id, hour >= %(hours_since)s::timestamptz AS is_scattered,
        CASE WHEN hour = ANY(%(season)s::timestamptz[])
            THEN round(extract(epoch FROM %(until)s::timestamptz - hour) / 604800)
        END AS weeks,
        bursts, sent, received, lossy, reordered, duplicated
    FROM left_out
    CROSS JOIN LATERAL (
        SELECT
            hour, sum(bursts) AS bursts, sum(sent) AS sent, sum(received) AS received,
            sum(bursts - bursts_none_lost) AS lossy, sum(bursts_reordered) AS reordered,
            sum(bursts_duplicated) AS duplicated
        FROM burst_hour
        WHERE burst_hour.path_id = left_out.path_id AND hour >= begins AND hour < ends
        GROUP BY hour
        HAVING sum(bursts) > 0
    ) AS of_range
    UNION ALL
    SELECT
        path_id, FALSE, NULL, bursts, sent, received, bursts - bursts_none_lost, bursts_reordered, bursts_duplicated
    FROM left_out_days
    JOIN burst_day USING (path_id, day)
    WHERE
        NOT EXISTS (
            SELECT FROM burst_hour
            WHERE burst_hour.path_id = left_out_days.path_id AND hour >= day AND hour < day + interval '1 day'
        )
),
taken_off AS (
    SELECT
        path_id AS of_path, sum(bursts) AS bursts, sum(sent) AS sent, sum(received) AS received, sum(lossy) AS lossy,
        sum(reordered) AS reordered, sum(duplicated) AS duplicated,
        count(*) FILTER (WHERE is_scattered) AS hours,
        sum(bursts) FILTER (WHERE is_scattered) AS hours_bursts,
        sum(lossy) FILTER (WHERE is_scattered) AS hours_lossy,
        sum(reordered) FILTER (WHERE is_scattered) AS hours_reordered,
        sum(duplicated) FILTER (WHERE is_scattered) AS hours_duplicated,
        sum(lossy::double precision * lossy / bursts) FILTER (WHERE is_scattered) AS lossy_squares,
        sum(reordered::double precision * reordered / bursts) FILTER (WHERE is_scattered) AS reordered_squares,
        sum(duplicated::double precision * duplicated / bursts) FILTER (WHERE is_scattered) AS duplicated_squares,
        count(DISTINCT weeks) AS season_weeks,
        sum(bursts) FILTER (WHERE weeks IS NOT NULL) AS season_bursts,
        sum(lossy) FILTER (WHERE weeks IS NOT NULL) AS season_lossy
    FROM left_out_counts
    GROUP BY path_id
)
SELECT
    path_id,
    coalesce(hours.bursts, 0) + coalesce(days.bursts, 0) - coalesce(taken_off.bursts, 0) AS bursts,
    coalesce(hours.sent, 0) + coalesce(days.sent, 0) - coalesce(taken_off.sent, 0) AS sent,
    coalesce(hours.received, 0) + coalesce(days.received, 0) - coalesce(taken_off.received, 0) AS received,
    coalesce(hours.lossy, 0) + coalesce(days.lossy, 0) - coalesce(taken_off.lossy, 0) AS lossy,
    coalesce(hours.reordered, 0) + coalesce(days.reordered, 0) - coalesce(taken_off.reordered, 0) AS reordered,
    coalesce(hours.duplicated, 0) + coalesce(days.duplicated, 0) - coalesce(taken_off.duplicated, 0) AS duplicated,
    coalesce(hours.hours, 0) - coalesce(taken_off.hours, 0) AS hours,
    coalesce(hours.bursts, 0) - coalesce(taken_off.hours_bursts, 0) AS hours_bursts,
    coalesce(hours.lossy, 0) - coalesce(taken_off.hours_lossy, 0) AS hours_lossy,
    coalesce(hours.reordered, 0) - coalesce(taken_off.hours_reordered, 0) AS hours_reordered,
    coalesce(hours.duplicated, 0) - coalesce(taken_off.hours_duplicated, 0) AS hours_duplicated,
    coalesce(hours.lossy_squares, 0) - coalesce(taken_off.lossy_squares, 0) AS lossy_squares,
    coalesce(hours.reordered_squares, 0) - coalesce(taken_off.reordered_squares, 0) AS reordered_squares,
    coalesce(hours.duplicated_squares, 0) - coalesce(taken_off.duplicated_squares, 0) AS duplicated_squares,
    coalesce(season.bursts, 0) - CASE WHEN season_weeks = 1 THEN season_bursts ELSE 0 END AS season_bursts,
    coalesce(season.lossy, 0) - CASE WHEN season_weeks = 1 THEN season_lossy ELSE 0 END AS season_lossy
FROM hours
FULL JOIN days USING (path_id)
LEFT JOIN season USING (path_id)
LEFT JOIN taken_off
    ON
        of_path = path_id
        AND taken_off.bursts <= %(most_left_out)s * (coalesce(hours.bursts, 0) + coalesce(days.bursts, 0))

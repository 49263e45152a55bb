-- One row for each path with counted cycles in the days of [since, hours_since) or the hours of [hours_since, until):
-- counts as recent_directions; how the hours scatter, the hours `season`, and the hours left out, as in baseline_counts.
WITH hours AS (
    SELECT
        path_id, count(*) AS hours, sum(bursts_counted) AS bursts, sum(counted) AS sent,
        sum(forward_lost) AS forward_lost, sum(forward_lossy) AS forward_lossy,
        sum(reverse_lost) AS reverse_lost, sum(reverse_lossy) AS reverse_lossy,
        sum(forward_lossy::double precision * forward_lossy / bursts_counted) AS forward_squares,
        sum(reverse_lossy::double precision * reverse_lossy / bursts_counted) AS reverse_squares
    FROM direction_hour
    WHERE hour >= %(hours_since)s::timestamptz AND hour < %(until)s::timestamptz AND bursts_counted > 0
    GROUP BY path_id
),
days AS (
    SELECT
        path_id, sum(bursts_counted) AS bursts, sum(counted) AS sent,
        sum(forward_lost) AS forward_lost, sum(forward_lossy) AS forward_lossy,
        sum(reverse_lost) AS reverse_lost, sum(reverse_lossy) AS reverse_lossy
    FROM direction_day
    WHERE day >= %(since)s::timestamptz AND day < %(hours_since)s::timestamptz AND bursts_counted > 0
    GROUP BY path_id
),
season AS (
    SELECT
        path_id, sum(bursts_counted) AS bursts, sum(forward_lossy) AS forward_lossy,
        sum(reverse_lossy) AS reverse_lossy
    FROM direction_hour
    WHERE hour = ANY(%(season)s::timestamptz[]) AND bursts_counted > 0
    GROUP BY path_id
),
{left_out},
left_out_counts AS (
    SELECT
        path_id, hour >= %(hours_since)s::timestamptz AS is_scattered,
        CASE WHEN hour = ANY(%(season)s::timestamptz[])
            THEN round(extract(epoch FROM %(until)s::timestamptz - hour) / 604800)
        END AS weeks,
        bursts, sent, forward_lost, forward_lossy, reverse_lost, reverse_lossy
    FROM left_out
    CROSS JOIN LATERAL (
        SELECT
            hour, bursts_counted AS bursts, counted AS sent, forward_lost, forward_lossy, reverse_lost, reverse_lossy
        FROM direction_hour
        WHERE direction_hour.path_id = left_out.path_id AND hour >= begins AND hour < ends AND bursts_counted > 0
        OFFSET 0
    ) AS of_range
    UNION ALL
    SELECT
        path_id, FALSE, NULL, bursts_counted, counted, forward_lost, forward_lossy, reverse_lost, reverse_lossy
    FROM left_out_days
    JOIN direction_day USING (path_id, day)
    WHERE
        bursts_counted > 0
        AND NOT EXISTS (
            SELECT FROM direction_hour
            WHERE direction_hour.path_id = left_out_days.path_id AND hour >= day AND hour < day + interval '1 day'
        )
),
taken_off AS (
    SELECT
        path_id AS of_path, sum(bursts) AS bursts, sum(sent) AS sent,
        sum(forward_lost) AS forward_lost, sum(forward_lossy) AS forward_lossy,
        sum(reverse_lost) AS reverse_lost, sum(reverse_lossy) AS reverse_lossy,
        count(*) FILTER (WHERE is_scattered) AS hours,
        sum(bursts) FILTER (WHERE is_scattered) AS hours_bursts,
        sum(forward_lossy) FILTER (WHERE is_scattered) AS forward_hours_lossy,
        sum(reverse_lossy) FILTER (WHERE is_scattered) AS reverse_hours_lossy,
        sum(forward_lossy::double precision * forward_lossy / bursts) FILTER (WHERE is_scattered) AS forward_squares,
        sum(reverse_lossy::double precision * reverse_lossy / bursts) FILTER (WHERE is_scattered) AS reverse_squares,
        count(DISTINCT weeks) AS season_weeks,
        sum(bursts) FILTER (WHERE weeks IS NOT NULL) AS season_bursts,
        sum(forward_lossy) FILTER (WHERE weeks IS NOT NULL) AS forward_season_lossy,
        sum(reverse_lossy) FILTER (WHERE weeks IS NOT NULL) AS reverse_season_lossy
    FROM left_out_counts
    GROUP BY path_id
),
both_tiers AS (
    SELECT
        path_id,
        coalesce(hours.bursts, 0) + coalesce(days.bursts, 0) - coalesce(taken_off.bursts, 0) AS bursts,
        coalesce(hours.sent, 0) + coalesce(days.sent, 0) - coalesce(taken_off.sent, 0) AS sent,
        coalesce(hours.forward_lost, 0) + coalesce(days.forward_lost, 0) - coalesce(taken_off.forward_lost, 0)
            AS forward_lost,
        coalesce(hours.forward_lossy, 0) + coalesce(days.forward_lossy, 0) - coalesce(taken_off.forward_lossy, 0)
            AS forward_lossy,
        coalesce(hours.reverse_lost, 0) + coalesce(days.reverse_lost, 0) - coalesce(taken_off.reverse_lost, 0)
            AS reverse_lost,
        coalesce(hours.reverse_lossy, 0) + coalesce(days.reverse_lossy, 0) - coalesce(taken_off.reverse_lossy, 0)
            AS reverse_lossy,
        coalesce(hours.hours, 0) - coalesce(taken_off.hours, 0) AS hours,
        coalesce(hours.bursts, 0) - coalesce(taken_off.hours_bursts, 0) AS hours_bursts,
        coalesce(hours.forward_lossy, 0) - coalesce(taken_off.forward_hours_lossy, 0) AS forward_hours_lossy,
        coalesce(hours.reverse_lossy, 0) - coalesce(taken_off.reverse_hours_lossy, 0) AS reverse_hours_lossy,
        coalesce(hours.forward_squares, 0) - coalesce(taken_off.forward_squares, 0) AS forward_lossy_squares,
        coalesce(hours.reverse_squares, 0) - coalesce(taken_off.reverse_squares, 0) AS reverse_lossy_squares,
        CASE WHEN season_weeks = 1 THEN season_bursts ELSE 0 END AS season_bursts_left_out,
        CASE WHEN season_weeks = 1 THEN forward_season_lossy ELSE 0 END AS forward_season_left_out,
        CASE WHEN season_weeks = 1 THEN reverse_season_lossy ELSE 0 END AS reverse_season_left_out
    FROM hours
    FULL JOIN days USING (path_id)
    LEFT JOIN taken_off
        ON
            of_path = path_id
            AND taken_off.bursts <= %(most_left_out)s * (coalesce(hours.bursts, 0) + coalesce(days.bursts, 0))
)
SELECT
    path_id, both_tiers.bursts, sent AS forward_sent, both_tiers.forward_lost, both_tiers.forward_lossy,
    sent - both_tiers.forward_lost AS reverse_sent, both_tiers.reverse_lost, both_tiers.reverse_lossy,
    hours, hours_bursts, forward_hours_lossy, reverse_hours_lossy, forward_lossy_squares, reverse_lossy_squares,
    coalesce(season.bursts, 0) - season_bursts_left_out AS season_bursts,
    coalesce(season.forward_lossy, 0) - forward_season_left_out AS forward_season_lossy,
    coalesce(season.reverse_lossy, 0) - reverse_season_left_out AS reverse_season_lossy
FROM both_tiers
LEFT JOIN season USING (path_id)

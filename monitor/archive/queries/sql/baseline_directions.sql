-- One row for each path with counted cycles in the days of [since, hours_since) or the hours of [hours_since, until):
-- counts as recent_directions; how the hours scatter, and the hours `season`, as in baseline_counts.
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
both_tiers AS (
    SELECT
        path_id,
        coalesce(hours.bursts, 0) + coalesce(days.bursts, 0) AS bursts,
        coalesce(hours.sent, 0) + coalesce(days.sent, 0) AS sent,
        coalesce(hours.forward_lost, 0) + coalesce(days.forward_lost, 0) AS forward_lost,
        coalesce(hours.forward_lossy, 0) + coalesce(days.forward_lossy, 0) AS forward_lossy,
        coalesce(hours.reverse_lost, 0) + coalesce(days.reverse_lost, 0) AS reverse_lost,
        coalesce(hours.reverse_lossy, 0) + coalesce(days.reverse_lossy, 0) AS reverse_lossy,
        coalesce(hours.hours, 0) AS hours,
        coalesce(hours.bursts, 0) AS hours_bursts,
        coalesce(hours.forward_lossy, 0) AS forward_hours_lossy,
        coalesce(hours.reverse_lossy, 0) AS reverse_hours_lossy,
        coalesce(hours.forward_squares, 0) AS forward_lossy_squares,
        coalesce(hours.reverse_squares, 0) AS reverse_lossy_squares
    FROM hours
    FULL JOIN days USING (path_id)
)
SELECT
    path_id, both_tiers.bursts, sent AS forward_sent, both_tiers.forward_lost, both_tiers.forward_lossy,
    sent - both_tiers.forward_lost AS reverse_sent, both_tiers.reverse_lost, both_tiers.reverse_lossy,
    hours, hours_bursts, forward_hours_lossy, reverse_hours_lossy, forward_lossy_squares, reverse_lossy_squares,
    coalesce(season.bursts, 0) AS season_bursts,
    coalesce(season.forward_lossy, 0) AS forward_season_lossy,
    coalesce(season.reverse_lossy, 0) AS reverse_season_lossy
FROM both_tiers
LEFT JOIN season USING (path_id)

-- One row for each path and hour of [since, until) with a counting reflector: counts as recent_directions.
SELECT
    path_id,
    extract(epoch FROM (%(until)s::timestamptz - hour)) / 3600 - 1 AS step,
    bursts_counted AS bursts,
    counted AS forward_sent,
    forward_lost,
    forward_lossy,
    counted - forward_lost AS reverse_sent,
    reverse_lost,
    reverse_lossy
FROM direction_hour
WHERE hour >= %(since)s::timestamptz AND hour < %(until)s::timestamptz AND bursts_counted > 0

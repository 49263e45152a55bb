-- One row for each path and hour of [since, until), packet sizes pooled: counts of bursts and packets, as recent_counts.
SELECT
    path_id,
    extract(epoch FROM (%(until)s::timestamptz - hour)) / 3600 - 1 AS step,
    sum(bursts) AS bursts,
    sum(sent) AS sent,
    sum(received) AS received,
    sum(bursts - bursts_none_lost) AS lossy,
    sum(bursts_reordered) AS reordered,
    sum(bursts_duplicated) AS duplicated
FROM burst_hour
WHERE hour >= %(since)s::timestamptz AND hour < %(until)s::timestamptz
GROUP BY path_id, hour

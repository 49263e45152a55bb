-- One row for each path and whole day of [since, until) with answers: how many days ago the day was, the median round
-- trip of its packets and the throughput that its loss and round trips allow, of the smallest packets that the path has.
SELECT DISTINCT ON (path_id, day)
    path_id, extract(epoch FROM (%(until)s::timestamptz - day)) / 86400 - 1 AS place, rtt_median_ms, estimate_bps
FROM burst_day
WHERE day >= %(since)s::timestamptz AND day < %(until)s::timestamptz AND rtt_median_ms IS NOT NULL
ORDER BY path_id, day, packet_bytes

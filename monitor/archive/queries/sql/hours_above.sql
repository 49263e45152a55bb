-- One row for each of the given paths and sizes (path_ids[i], sizes[i]) with an hour in [since, until) that has a median
-- round trip: how many such hours there are, and in how many it is above limits_ms[i].
SELECT path_id, count(*) AS "of", count(*) FILTER (WHERE rtt_median_ms > limit_ms) AS worse
FROM burst_hour
INNER JOIN unnest(%(path_ids)s::integer[], %(sizes)s::integer[], %(limits_ms)s::double precision[])
    AS wanted (path_id, packet_bytes, limit_ms)
    USING (path_id, packet_bytes)
WHERE hour >= %(since)s::timestamptz AND hour < %(until)s::timestamptz AND rtt_median_ms IS NOT NULL
GROUP BY path_id
ORDER BY path_id

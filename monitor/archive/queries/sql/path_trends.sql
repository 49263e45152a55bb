-- One row for each hour with a summary of packets of this size, of each wanted path and its own period: the fields of
-- monitor.archive.queries.trends.HourOfPath. `place` counts the wanted paths from 0.
SELECT wanted.place - 1 AS place, hours.hour AS at, hours.sent, hours.received, hours.rtt_median_ms
FROM unnest(%(path_ids)s::integer[], %(since)s::timestamptz[], %(until)s::timestamptz[])
    WITH ORDINALITY AS wanted (path_id, since, until, place)
CROSS JOIN LATERAL (
    SELECT hour, sent, received, rtt_median_ms
    FROM burst_hour
    WHERE
        burst_hour.path_id = wanted.path_id AND packet_bytes = %(packet_bytes)s
        AND hour >= wanted.since AND hour < wanted.until
) AS hours
ORDER BY place, at

-- One row for each path in use and packet size with a summary in the UTC day that holds a moment: where it goes, what was
-- counted since that day began, and its newest burst of the last day. Bursts during our own tests are in no count.
WITH counted AS (
    SELECT
        path_id, packet_bytes, sum(sent) AS sent, sum(received) AS received, sum(duplicates) AS duplicates,
        coalesce(sum(rtt_avg_ms * received), 0) AS rtt_sum_ms, string_agg(rtt_sketch, '') AS rtt_sketch
    FROM burst_hour
    WHERE hour >= %(since)s::timestamptz AND hour < %(since)s::timestamptz + interval '1 day'
    GROUP BY path_id, packet_bytes
)

SELECT
    path.id AS path_id, counted.packet_bytes, source_site.name AS source_site, destination_site.name AS destination_site,
    source_host.name AS source, destination_host.name AS host, path.family, newest.address::text AS address,
    newest.measured_at, newest.ttl, counted.sent, counted.received, counted.duplicates, counted.rtt_sum_ms,
    counted.rtt_sketch
FROM counted
INNER JOIN path ON path.id = counted.path_id
INNER JOIN host AS source_host ON source_host.id = path.source_id
INNER JOIN host AS destination_host ON destination_host.id = path.destination_id
INNER JOIN site AS source_site ON source_site.id = source_host.site_id
INNER JOIN site AS destination_site ON destination_site.id = destination_host.site_id
LEFT JOIN LATERAL (
    SELECT host(address) AS address, measured_at, ttl
    FROM burst
    WHERE
        burst.path_id = counted.path_id AND burst.packet_bytes = counted.packet_bytes
        AND measured_at > %(now)s::timestamptz - interval '1 day' AND measured_at <= %(now)s::timestamptz + interval '1 hour'
    ORDER BY measured_at DESC
    LIMIT 1
) AS newest ON TRUE
WHERE path.retired_at IS NULL AND (%(source)s::text IS NULL OR source_site.name = %(source)s::text)
ORDER BY path.id, counted.packet_bytes
LIMIT %(most)s

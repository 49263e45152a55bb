-- One row for each of the given moments, in their order: the pings of this path and size in the half hour before it, as
-- monitor.analysis.tcp.PathPings. Bursts during throughput tests are left out. Where no burst is left, the summary of
-- the hour before stands in, without a TTL.
SELECT
    coalesce(pings.rtt_ms, hour.rtt_ms)::double precision AS rtt_ms,
    coalesce(pings.sent - pings.received, hour.sent - hour.received, 0)::integer AS lost,
    coalesce(pings.sent, hour.sent, 0)::integer AS sent,
    pings.ttl::integer AS ttl
FROM unnest(%(moments)s::timestamptz[]) WITH ORDINALITY AS moment (at, place)
CROSS JOIN LATERAL (
    SELECT
        sum(sent) AS sent, sum(received) AS received, mode() WITHIN GROUP (ORDER BY ttl) AS ttl,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY median.rtt_ms) AS rtt_ms
    FROM burst
    LEFT JOIN LATERAL (
        SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY packet.rtt_ms) AS rtt_ms
        FROM unnest(burst.rtts_ms) AS packet (rtt_ms)
    ) AS median ON TRUE
    WHERE
        path_id = %(path_id)s AND packet_bytes = %(packet_bytes)s
        AND measured_at >= moment.at - interval '30 minutes' AND measured_at < moment.at
        AND NOT during_test AND sent > 0
) AS pings
LEFT JOIN LATERAL (
    SELECT burst_hour.sent, burst_hour.received, rtt_median_ms AS rtt_ms
    FROM burst_hour
    WHERE
        pings.sent IS NULL AND path_id = %(path_id)s AND packet_bytes = %(packet_bytes)s
        AND burst_hour.hour = date_trunc('hour', moment.at, 'UTC') - interval '1 hour'
) AS hour ON TRUE
ORDER BY moment.place

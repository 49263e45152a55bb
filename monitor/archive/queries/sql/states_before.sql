-- One row for each of the given moments, in their order: the pings of this path and size in the half hour before it, the
-- oldest first: begin in seconds since the epoch, packets sent and received, median RTT and TTL; NULL without any. Bursts
-- during throughput tests are left out. Where no burst is left, rtt_ms, lost and sent are those of the hour before.
-- The size is compared as `packet_bytes + 0`, which keeps it out of the look-up of the key (path, time, size): PostgreSQL 18
-- would skip through the times to those with a size, takes that for dear, and reads the bursts of all paths by their time
-- instead, for each path anew.
SELECT
    pings.at_s, pings.sent, pings.received, pings.rtts_ms, pings.ttls,
    hour.rtt_ms, coalesce(hour.sent - hour.received, 0)::integer AS hour_lost, coalesce(hour.sent, 0)::integer AS hour_sent
FROM unnest(%(moments)s::timestamptz[]) WITH ORDINALITY AS moment (at, place)
CROSS JOIN LATERAL (
    SELECT
        array_agg(extract(epoch FROM measured_at)::double precision ORDER BY measured_at) AS at_s,
        array_agg(sent::double precision ORDER BY measured_at) AS sent,
        array_agg(received::double precision ORDER BY measured_at) AS received,
        array_agg(median.rtt_ms ORDER BY measured_at) AS rtts_ms,
        array_agg(ttl::integer ORDER BY measured_at) AS ttls
    FROM burst
    LEFT JOIN LATERAL (
        SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY packet.rtt_ms) AS rtt_ms
        FROM unnest(burst.rtts_ms) AS packet (rtt_ms)
    ) AS median ON TRUE
    WHERE
        path_id = %(path_id)s AND packet_bytes + 0 = %(packet_bytes)s
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

-- One row for each of the given tests (path_ids[i], starts[i]) with what was known of its path when it began:
--   idle_rtt_ms   the median of the least round trips of the newest three answered cycles of the half hour before, those
--                 during our own tests left out: the least of the half hour may be of a route that is no longer used
--   capacity_bps  what the path carries: the newest capacity measured in the week before, else the best test of that
--                 week that was held back by the path itself (its queue or its policer); and never less than the best
--                 test of that week. Null where neither was measured.
--   earlier_bps   the median of the last ten of its scheduled TCP tests of that week with the same streams and congestion
--                 control, without a requested rate; null with fewer than three
--   trains_…      verdict, rate, burst and age (s) of its newest policer test of that week that could tell; null without
--   …_address     the addresses of its ends
--   promised_bps  null: mesh.toml promises it, and the diagnosis adds it
SELECT asked.path_id, asked.at, idle.rtt_ms AS idle_rtt_ms, greatest(coalesce(link.bps, best.full_bps), CASE
    WHEN coalesce(link.bps, best.full_bps) IS NOT NULL THEN best.bps
END) AS capacity_bps, earlier.bps AS earlier_bps, trains.verdict AS trains_verdict, trains.bps AS trains_bps,
trains.burst_bytes AS trains_burst_bytes, trains.age_s AS trains_age_s, source.address AS source_address,
destination.address AS destination_address, NULL::double precision AS promised_bps
FROM unnest(%(path_ids)s::integer[], %(starts)s::timestamptz[]) AS asked (path_id, at)
CROSS JOIN LATERAL (
    SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY cycle.rtt_ms) AS rtt_ms
    FROM (
        SELECT min(packet.rtt_ms) AS rtt_ms
        FROM burst
        CROSS JOIN LATERAL unnest(rtts_ms) AS packet (rtt_ms)
        WHERE
            burst.path_id = asked.path_id
            AND measured_at >= asked.at - interval '30 minutes' AND measured_at < asked.at
            AND NOT during_test AND received > 0
        GROUP BY measured_at
        ORDER BY measured_at DESC
        LIMIT 3
    ) AS cycle
) AS idle
LEFT JOIN LATERAL (
    SELECT capacity_bps AS bps
    FROM capacity_result
    WHERE
        capacity_result.path_id = asked.path_id
        AND measured_at >= asked.at - interval '7 days' AND measured_at < asked.at
        AND capacity_bps IS NOT NULL
    ORDER BY measured_at DESC
    LIMIT 1
) AS link ON TRUE
CROSS JOIN LATERAL (
    SELECT
        max(throughput_bps) AS bps,
        max(throughput_bps) FILTER (WHERE verdict IN ('bottleneck queue', 'policer')) AS full_bps
    FROM throughput_test
    WHERE
        throughput_test.path_id = asked.path_id
        AND measured_at >= asked.at - interval '7 days' AND measured_at < asked.at
        AND protocol = 'tcp'
) AS best
CROSS JOIN LATERAL (
    SELECT
        CASE WHEN count(*) >= 3 THEN percentile_cont(0.5) WITHIN GROUP (ORDER BY newest.throughput_bps) END AS bps
    FROM (
        SELECT past.throughput_bps
        FROM throughput_test AS past
        INNER JOIN throughput_test AS this
            ON this.path_id = past.path_id AND this.measured_at = asked.at AND this.streams = past.streams
            AND this.congestion_control IS NOT DISTINCT FROM past.congestion_control
        WHERE
            past.path_id = asked.path_id
            AND past.measured_at >= asked.at - interval '7 days' AND past.measured_at < asked.at
            AND past.protocol = 'tcp' AND past.asked_bps IS NULL AND past.test <> 'on-demand'
            AND past.throughput_bps IS NOT NULL
        ORDER BY past.measured_at DESC
        LIMIT 10
    ) AS newest
) AS earlier
LEFT JOIN LATERAL (
    SELECT
        verdict, sustained_bps AS bps, burst_bytes,
        extract(EPOCH FROM asked.at - measured_at)::double precision AS age_s
    FROM policer_result
    WHERE
        policer_result.path_id = asked.path_id
        AND measured_at >= asked.at - interval '7 days' AND measured_at < asked.at
        AND verdict IN ('policer', 'shaper', 'link', 'no_limit')
    ORDER BY measured_at DESC
    LIMIT 1
) AS trains ON TRUE
LEFT JOIN path ON path.id = asked.path_id
LEFT JOIN host AS source ON source.id = path.source_id
LEFT JOIN host AS destination ON destination.id = path.destination_id
ORDER BY asked.path_id, asked.at

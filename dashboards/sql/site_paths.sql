-- One row per path from or to the chosen site, those that lost most first: its figures over the period. Without loss
-- the loss is null and "Loss, upper bound" holds 3/N.
WITH ping AS (
    SELECT
        path_id,
        SUM(sent) AS sent,
        SUM(received) AS received,
        MIN(rtt_min_ms) AS rtt_min_ms,
        SUM(rtt_avg_ms * received) / NULLIF(SUM(received), 0) AS rtt_avg_ms
    FROM reporting.ping_between($__timeFrom(), $__timeTo())
    WHERE packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
        AND path_id IN (SELECT path_id FROM reporting.path WHERE ${site:sqlstring} IN (source, destination))
    GROUP BY path_id
),
covered AS (
    SELECT path_id, SUM(bursts_measured) AS bursts, SUM(bursts_planned) AS planned
    FROM reporting.path_coverage(
        reporting.pooled_tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo(), now()
    )
    WHERE packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
        AND path_id IN (SELECT path_id FROM reporting.path WHERE ${site:sqlstring} IN (source, destination))
    GROUP BY path_id
),
tcp AS (
    SELECT
        path_id,
        SUM(throughput_avg_bps * tests_measured) / NULLIF(SUM(tests_measured), 0) AS throughput_bps
    FROM reporting.throughput_between($__timeFrom(), $__timeTo())
    WHERE path_id IN (SELECT path_id FROM reporting.path WHERE ${site:sqlstring} IN (source, destination))
    GROUP BY path_id
)
SELECT
    path.source AS "From",
    path.destination AS "To",
    path.name AS "Path",
    path.family::text AS "Family",
    path.path_id::text AS "Number",
    CASE WHEN received < sent THEN (sent - received)::float8 / sent END AS "Loss",
    CASE WHEN received = sent THEN reporting.loss_bound_ratio(sent) END AS "Loss, upper bound",
    ping.rtt_min_ms AS "RTT minimum",
    ping.rtt_avg_ms AS "RTT mean",
    tcp.throughput_bps AS "Throughput",
    CASE WHEN covered.planned > 0 THEN LEAST(covered.bursts / covered.planned, 1) END AS "Coverage"
FROM reporting.path
LEFT JOIN ping USING (path_id)
LEFT JOIN covered USING (path_id)
LEFT JOIN tcp USING (path_id)
WHERE ${site:sqlstring} IN (path.source, path.destination) AND NOT path.is_retired
ORDER BY "Loss" DESC NULLS LAST, path.source <> ${site:sqlstring}, path.name

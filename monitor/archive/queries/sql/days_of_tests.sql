-- One row for each of the given paths, at its packet size (path_ids[i], sizes[i]), and UTC day that begins in [since, until),
-- on which it was pinged and tested, and each kind of transfer: the fields of
-- monitor.archive.queries.throughput.calibrations.DayOfTests.
-- Only scheduled TCP tests count that the path held back (`verdicts`; where it is `undetermined`, those with a loss that
-- were long enough). The capacity is as in path_backgrounds.sql, of the seven days before.
WITH tests AS (
    SELECT
        path_id, date_trunc('day', measured_at, 'UTC') AS day, congestion_control, streams, throughput_bps, verdict,
        test <> %(on_demand)s AND verdict = ANY(%(verdicts)s::text[]) AND (
            verdict <> 'undetermined'
            OR NOT (diagnosis ->> 'too_short')::boolean AND jsonb_array_length(diagnosis -> 'recoveries') > 0
        ) AS is_held
    FROM throughput_test
    WHERE
        path_id = ANY(%(path_ids)s::integer[]) AND protocol = 'tcp' AND throughput_bps > 0
        AND measured_at >= %(since)s::timestamptz - interval '7 days' AND measured_at < %(until)s::timestamptz
), best AS (
    SELECT
        path_id, day,
        max(max(throughput_bps)) OVER week AS bps,
        max(max(throughput_bps) FILTER (WHERE verdict IN ('bottleneck queue', 'policer'))) OVER week AS full_bps
    FROM tests
    GROUP BY path_id, day
    WINDOW week AS (
        PARTITION BY path_id ORDER BY day RANGE BETWEEN interval '7 days' PRECEDING AND interval '1 day' PRECEDING
    )
), held AS (
    SELECT
        path_id, day, congestion_control, streams,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY throughput_bps) AS measured_bps
    FROM tests
    WHERE is_held AND day >= %(since)s::timestamptz
    GROUP BY path_id, day, congestion_control, streams
)
SELECT
    held.path_id, held.day, held.congestion_control, held.streams, held.measured_bps,
    greatest(coalesce(link.bps, best.full_bps), CASE
        WHEN coalesce(link.bps, best.full_bps) IS NOT NULL THEN best.bps
    END) AS capacity_bps,
    pings.rtt_median_ms::double precision AS rtt_ms, pings.sent - pings.received AS lost, pings.sent
FROM held
INNER JOIN best USING (path_id, day)
INNER JOIN unnest(%(path_ids)s::integer[], %(sizes)s::integer[]) AS wanted (path_id, packet_bytes) USING (path_id)
INNER JOIN burst_day AS pings
    ON pings.path_id = held.path_id AND pings.packet_bytes = wanted.packet_bytes AND pings.day = held.day
LEFT JOIN LATERAL (
    SELECT capacity_bps AS bps
    FROM capacity_result
    WHERE
        capacity_result.path_id = held.path_id
        AND measured_at >= held.day - interval '7 days' AND measured_at < held.day
        AND capacity_bps IS NOT NULL
    ORDER BY measured_at DESC
    LIMIT 1
) AS link ON TRUE
WHERE pings.rtt_median_ms > 0
ORDER BY held.path_id, held.day

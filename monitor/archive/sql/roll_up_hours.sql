-- Computes the summaries of the given hours (path_ids[i], hours[i]) anew from raw bursts and stores them. Returns for
-- each path, size and hour what its estimate is made from: path_id, packet_bytes, hour, rtt_avg_ms, sent, received.
--
-- The same raw rows give the same summary to the last bit, in whatever order they lie: quantiles and extremes depend on
-- the values only, and the average adds whole femtoseconds, since a sum of floats depends on the order.
-- Quantiles interpolate linearly between order statistics, and skip nulls. Variation is the inter-quartile range of the
-- differences of two packets sent one after the other that both came back (RFC 3393, section 2; RFC 5481, section 4.1).
WITH marked AS (
    SELECT path_id, hour FROM unnest(%(path_ids)s::integer[], %(hours)s::timestamptz[]) AS m (path_id, hour)
),
raw AS (
    SELECT
        path_id, packet_bytes, hour, outcome = 'measured' AND NOT during_test AS counts, during_test, sent, received,
        duplicates, reordered, rtts_ms
    FROM marked
    INNER JOIN burst USING (path_id)
    WHERE
        measured_at >= hour AND measured_at < hour + interval '1 hour'
        AND measured_at >= %(since)s AND measured_at < %(until)s
),
counted AS (
    SELECT
        path_id, packet_bytes, hour,
        count(*) FILTER (WHERE counts) AS bursts,
        count(*) FILTER (WHERE counts AND received = 0) AS bursts_all_lost,
        count(*) FILTER (WHERE counts AND received = sent) AS bursts_none_lost,
        count(*) FILTER (WHERE during_test) AS bursts_during_test,
        count(*) FILTER (WHERE NOT counts AND NOT during_test) AS bursts_not_measured,
        coalesce(sum(sent) FILTER (WHERE counts), 0) AS sent,
        coalesce(sum(received) FILTER (WHERE counts), 0) AS received,
        coalesce(sum(duplicates) FILTER (WHERE counts), 0) AS duplicates,
        coalesce(sum(reordered) FILTER (WHERE counts), 0) AS reordered
    FROM raw
    GROUP BY path_id, packet_bytes, hour
),
timed AS (
    SELECT
        path_id, packet_bytes, hour,
        min(rtt_ms) AS rtt_min_ms,
        percentile_cont(ARRAY[0.25, 0.5, 0.75, 0.95]) WITHIN GROUP (ORDER BY rtt_ms::double precision) AS quantiles_ms,
        max(rtt_ms) AS rtt_max_ms,
        avg(round(rtt_ms::double precision * 1e12)::bigint) / 1e12 AS rtt_avg_ms
    FROM raw
    CROSS JOIN LATERAL unnest(rtts_ms) AS rtt_ms
    WHERE counts
    GROUP BY path_id, packet_bytes, hour
),
varied AS (
    SELECT
        path_id, packet_bytes, hour,
        percentile_cont(ARRAY[0.25, 0.75]) WITHIN GROUP (
            ORDER BY next_ms::double precision - rtt_ms::double precision
        ) AS quartiles_ms
    FROM raw
    CROSS JOIN LATERAL unnest(rtts_ms[:cardinality(rtts_ms) - 1], rtts_ms[2:]) AS pair (rtt_ms, next_ms)
    WHERE counts
    GROUP BY path_id, packet_bytes, hour
)
INSERT INTO burst_hour (
    path_id, packet_bytes, hour, bursts, bursts_all_lost, bursts_none_lost, bursts_during_test, bursts_not_measured,
    sent, received, duplicates, reordered, rtt_min_ms, rtt_p25_ms, rtt_median_ms, rtt_p75_ms, rtt_p95_ms, rtt_max_ms,
    rtt_avg_ms, ipdv_ms
)
SELECT
    path_id, packet_bytes, hour, bursts, bursts_all_lost, bursts_none_lost, bursts_during_test, bursts_not_measured,
    sent, received, duplicates, reordered, rtt_min_ms, quantiles_ms[1], quantiles_ms[2], quantiles_ms[3],
    quantiles_ms[4], rtt_max_ms, rtt_avg_ms, quartiles_ms[2] - quartiles_ms[1]
FROM counted
LEFT JOIN timed USING (path_id, packet_bytes, hour)
LEFT JOIN varied USING (path_id, packet_bytes, hour)
ORDER BY path_id, packet_bytes, hour
ON CONFLICT (path_id, packet_bytes, hour) DO UPDATE SET
    bursts = excluded.bursts,
    bursts_all_lost = excluded.bursts_all_lost,
    bursts_none_lost = excluded.bursts_none_lost,
    bursts_during_test = excluded.bursts_during_test,
    bursts_not_measured = excluded.bursts_not_measured,
    sent = excluded.sent,
    received = excluded.received,
    duplicates = excluded.duplicates,
    reordered = excluded.reordered,
    rtt_min_ms = excluded.rtt_min_ms,
    rtt_p25_ms = excluded.rtt_p25_ms,
    rtt_median_ms = excluded.rtt_median_ms,
    rtt_p75_ms = excluded.rtt_p75_ms,
    rtt_p95_ms = excluded.rtt_p95_ms,
    rtt_max_ms = excluded.rtt_max_ms,
    rtt_avg_ms = excluded.rtt_avg_ms,
    ipdv_ms = excluded.ipdv_ms
RETURNING path_id, packet_bytes, hour, rtt_avg_ms, sent, received

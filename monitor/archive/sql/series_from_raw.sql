-- One row for each step of step_s seconds, aligned to the epoch, in which a burst of this path and size in [since,
-- until) began: the fields of monitor.archive.queries.SeriesPoint with the average round trip that the estimate is made from
-- in the estimate's place. Bursts during our own tests are left out.
WITH raw AS (
    SELECT
        date_bin(make_interval(secs => %(step_s)s), measured_at, 'epoch') AS at, outcome = 'measured' AS measured,
        sent, received, rtts_ms
    FROM burst
    WHERE
        path_id = %(path_id)s AND packet_bytes = %(packet_bytes)s
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND NOT during_test
),
counted AS (
    SELECT
        at, sum(sent) AS sent, sum(received) AS received, count(*) FILTER (WHERE NOT measured) AS bursts_not_measured,
        max((sent - received)::real / nullif(sent, 0)) AS loss_max_ratio
    FROM raw
    GROUP BY at
),
timed AS (
    SELECT
        at, min(rtt_ms) AS rtt_min_ms,
        percentile_cont(ARRAY[0.25, 0.5, 0.75, 0.95]) WITHIN GROUP (ORDER BY rtt_ms::double precision) AS quantiles_ms,
        max(rtt_ms) AS rtt_max_ms, avg(rtt_ms::double precision) AS rtt_avg_ms
    FROM raw
    CROSS JOIN LATERAL unnest(rtts_ms) AS rtt_ms
    WHERE rtt_ms IS NOT NULL
    GROUP BY at
)
SELECT
    at, sent, received, bursts_not_measured, rtt_min_ms, quantiles_ms[1] AS rtt_p25_ms,
    quantiles_ms[2] AS rtt_median_ms, quantiles_ms[3] AS rtt_p75_ms, quantiles_ms[4] AS rtt_p95_ms, rtt_max_ms,
    rtt_avg_ms, loss_max_ratio
FROM counted
LEFT JOIN timed USING (at)
ORDER BY at

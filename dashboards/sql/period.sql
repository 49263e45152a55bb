-- One row per packet size: the chosen path over the bursts of the period up to three hours, beyond over all hours that it
-- touches, days beyond two days, months beyond 92. Loss is pooled, lost over sent; without loss in N packets it is null
-- and "Loss, upper bound" holds 3/N (at most 1). "RTT median" is the median of the medians of the bursts (hours, days,
-- months), weighted by replies.
WITH summary AS (
    SELECT *
    FROM reporting.ping_between($__timeFrom(), $__timeTo())
    WHERE path_id = NULLIF(${path:sqlstring}, '')::integer
),
total AS (
    SELECT
        packet_bytes,
        SUM(sent) AS sent,
        SUM(received) AS received,
        SUM(bursts) AS bursts,
        SUM(bursts_not_measured) AS bursts_not_measured,
        MIN(rtt_min_ms) AS rtt_min_ms,
        MAX(rtt_max_ms) AS rtt_max_ms
    FROM summary
    GROUP BY packet_bytes
),
ranked AS (
    SELECT
        packet_bytes,
        rtt_median_ms,
        SUM(received) OVER (PARTITION BY packet_bytes ORDER BY rtt_median_ms, at) AS received_up_to,
        SUM(received) OVER (PARTITION BY packet_bytes) AS received
    FROM summary
    WHERE rtt_median_ms IS NOT NULL
),
median AS (
    SELECT packet_bytes, MIN(rtt_median_ms) AS rtt_median_ms
    FROM ranked
    WHERE received_up_to * 2 >= received
    GROUP BY packet_bytes
)
SELECT
    packet_bytes AS "Packet size, bytes",
    bursts::float8 AS "Bursts",
    bursts_not_measured::float8 AS "Not measured",
    sent::float8 AS "Packets sent",
    (sent - received)::float8 AS "Packets lost",
    CASE WHEN received < sent THEN (sent - received)::float8 / sent END AS "Loss",
    CASE WHEN received = sent THEN reporting.loss_bound_ratio(sent) END AS "Loss, upper bound",
    rtt_min_ms AS "RTT minimum",
    rtt_median_ms AS "RTT median",
    rtt_max_ms AS "RTT maximum"
FROM total
LEFT JOIN median USING (packet_bytes)
ORDER BY packet_bytes

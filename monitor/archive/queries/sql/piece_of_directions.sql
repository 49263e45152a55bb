-- The counts and delays of directions of a stretch of {tier}s.
SELECT
    path_id, counted, forward_lost, reverse_lost, bursts_counted, forward_lossy, reverse_lossy, bursts_delayed,
    forward_avg_ms, reverse_avg_ms, offset_lo_ms, offset_hi_ms,
    greatest(sent - received - forward_lost - reverse_lost, 0) AS undecided
FROM direction_{tier}
WHERE
    path_id = ANY(%(path_ids)s::integer[])
    AND {tier} >= %(since_{number})s::timestamptz AND {tier} < %(until_{number})s::timestamptz

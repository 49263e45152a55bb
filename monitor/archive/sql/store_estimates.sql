-- Puts the estimates, one for each of the given path, size and hour, into the summaries. Returns nothing.
-- The bounds say the same as the hours do; with them TimescaleDB leaves the other chunks alone.
UPDATE burst_hour
SET estimate_bps = made.estimate_bps, estimate_is_floor = made.is_floor
FROM unnest(
    %(path_ids)s::integer[], %(sizes)s::integer[], %(hours)s::timestamptz[], %(estimates_bps)s::double precision[],
    %(floors)s::boolean[]
) AS made (path_id, packet_bytes, hour, estimate_bps, is_floor)
WHERE
    burst_hour.path_id = made.path_id
    AND burst_hour.packet_bytes = made.packet_bytes
    AND burst_hour.hour = made.hour
    AND burst_hour.hour >= %(since)s AND burst_hour.hour < %(until)s

-- Packet sizes (bytes of ICMP payload) that the chosen path was measured with in the period, smallest first.
SELECT
    packet_bytes || ' bytes' AS __text,
    packet_bytes::text AS __value
FROM burst_hour
WHERE path_id = NULLIF(${path:sqlstring}, '')::integer
    AND hour > $__timeFrom()::timestamptz - INTERVAL '1 hour' AND hour < $__timeTo()::timestamptz
GROUP BY packet_bytes
ORDER BY packet_bytes

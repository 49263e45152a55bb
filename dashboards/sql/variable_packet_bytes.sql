-- Packet sizes (bytes of ICMP payload) that the chosen path was measured with in the period, smallest first.
SELECT
    packet_bytes || ' bytes' AS __text,
    packet_bytes::text AS __value
FROM reporting.ping
WHERE tier = reporting.tier($__timeFrom(), $__timeTo())
    AND at >= reporting.start_of(reporting.tier($__timeFrom(), $__timeTo()), $__timeFrom())
    AND at < $__timeTo()::timestamptz
    AND path_id = NULLIF(${path:sqlstring}, '')::integer
GROUP BY packet_bytes
ORDER BY packet_bytes

-- Packet sizes (bytes of ICMP payload) that the mesh measures with now, smallest first.
SELECT size || ' bytes' AS __text, size::text AS __value
FROM reporting.plan
CROSS JOIN unnest(packet_bytes) AS size
WHERE ended_at IS NULL
GROUP BY size
ORDER BY size

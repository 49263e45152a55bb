-- The number of bursts that began in [since, until), and the sum of the hashes of their keys, which tells apart days whose
-- rows differ.
SELECT count(*),
    coalesce(sum(hashint8extended(
        (extract(EPOCH FROM measured_at) * 1000000)::bigint, path_id::bigint * 65536 + packet_bytes
    )::numeric), 0)
FROM burst
WHERE measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz

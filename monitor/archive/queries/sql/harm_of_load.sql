-- One row for each of these paths and packet sizes, and for packets under load and at rest: the round trips for NumPy, as
-- series_from_raw has them. Under load are the packets so marked of bursts that began in [since, until); at rest all others
-- of bursts that began in [rest_since, until).
WITH near AS (
    SELECT path_id, packet_bytes, measured_at, during_test, rtts_ms, loaded_rtts_ms
    FROM burst
    WHERE
        path_id = ANY(%(path_ids)s::integer[])
        AND measured_at >= %(rest_since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND outcome = 'measured'
),

packets AS (
    SELECT path_id, packet_bytes, TRUE AS is_loaded, CASE WHEN during_test THEN rtts_ms ELSE loaded_rtts_ms END AS rtts_ms
    FROM near
    WHERE loaded_rtts_ms IS NOT NULL AND measured_at >= %(since)s::timestamptz
    UNION ALL
    SELECT path_id, packet_bytes, FALSE, rtts_ms FROM near WHERE NOT during_test
)

SELECT
    path_id,
    packet_bytes,
    is_loaded,
    string_agg(int2send(cardinality(rtts_ms)::smallint), '') AS packets,
    string_agg(array_send(array_replace(rtts_ms, NULL, 'NaN'::real)), '') AS rtts
FROM packets
GROUP BY path_id, packet_bytes, is_loaded
ORDER BY path_id, packet_bytes, is_loaded

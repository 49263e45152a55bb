-- One row for each path of the given family (any where null) with a TCP throughput test that was measured in
-- [since, until): its fastest test, with both ends: the fields of
-- monitor.archive.queries.throughput.record_transfers.FastestTest.
SELECT DISTINCT ON (throughput_test.path_id)
    throughput_test.path_id, measured_at AS at, test, throughput_bps, streams, congestion_control, duration_s, sentence,
    path.family, here.name AS source, there.name AS destination,
    here.latitude_deg AS source_latitude_deg, here.longitude_deg AS source_longitude_deg,
    there.latitude_deg AS destination_latitude_deg, there.longitude_deg AS destination_longitude_deg
FROM throughput_test
INNER JOIN path ON path.id = throughput_test.path_id
INNER JOIN host AS source ON source.id = path.source_id
INNER JOIN host AS destination ON destination.id = path.destination_id
INNER JOIN site AS here ON here.id = source.site_id
INNER JOIN site AS there ON there.id = destination.site_id
WHERE
    protocol = 'tcp' AND throughput_bps > 0
    -- Older agents took damaged reports for measurements: no host receives above 10 Tbit/s, nor far more than was sent.
    AND throughput_bps <= 1e13
    AND (sent_bytes IS NULL OR received_bytes IS NULL OR received_bytes / 2 <= sent_bytes)
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    AND (%(family)s::integer IS NULL OR path.family = %(family)s::integer)
ORDER BY throughput_test.path_id, throughput_bps DESC, measured_at

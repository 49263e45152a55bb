-- The throughput test of this path that began at this moment: the fields of
-- monitor.archive.queries.throughput.transfers.StoredTransfer, the last two as they are stored.
SELECT
    path_id, measured_at AS at, test, protocol, outcome, streams, throughput_bps, average_bps, steady_s, asked_bps,
    retransmits, congestion_control, tool, verdict, sentence, detail, diagnosis, transfer
FROM throughput_test
WHERE path_id = %(path_id)s AND measured_at = %(at)s::timestamptz

-- The throughput test of this path that began at this moment. Columns: the fields of
-- monitor.archive.queries.throughput.transfers.StoredTransfer, the last two as they are stored.
SELECT {columns}
FROM (SELECT throughput_test.*, measured_at AS at, diagnosis AS findings FROM throughput_test) AS test
WHERE path_id = %(path_id)s AND at = %(at)s::timestamptz

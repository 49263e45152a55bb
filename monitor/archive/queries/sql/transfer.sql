-- The throughput test of this path that began at this moment. Columns: the fields of
-- monitor.archive.queries.throughput.transfers.StoredTransfer, the last four as they are stored.
SELECT {columns}
FROM (
    SELECT
        throughput_test.*, measured_at AS at, diagnosis AS findings,
        sender.inventory AS sender_inventory, receiver.inventory AS receiver_inventory
    FROM throughput_test
    LEFT JOIN host_inventory AS sender ON sender.id = throughput_test.sender_inventory_id
    LEFT JOIN host_inventory AS receiver ON receiver.id = throughput_test.receiver_inventory_id
) AS test
WHERE path_id = %(path_id)s AND at = %(at)s::timestamptz

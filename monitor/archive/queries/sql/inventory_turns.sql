-- The tests of a path in a period whose host had another inventory than at the test before, newest first, a row for each
-- end: at, role (sender or receiver), before, after (the inventories as they are stored).
WITH inventory_of_test AS (
    SELECT measured_at, 'sender' AS role, sender_inventory_id AS id
    FROM throughput_test
    WHERE
        path_id = %(path_id)s AND measured_at >= %(since)s::timestamptz AND measured_at <= %(until)s::timestamptz
        AND sender_inventory_id IS NOT NULL
    UNION ALL
    SELECT measured_at, 'receiver', receiver_inventory_id
    FROM throughput_test
    WHERE
        path_id = %(path_id)s AND measured_at >= %(since)s::timestamptz AND measured_at <= %(until)s::timestamptz
        AND receiver_inventory_id IS NOT NULL
),

turn AS (
    SELECT measured_at, role, id, lag(id) OVER (PARTITION BY role ORDER BY measured_at) AS id_before
    FROM inventory_of_test
)

SELECT turn.measured_at AS at, turn.role, old.inventory AS before, new.inventory AS after
FROM turn
INNER JOIN host_inventory AS old ON old.id = turn.id_before
INNER JOIN host_inventory AS new ON new.id = turn.id
WHERE turn.id <> turn.id_before
ORDER BY turn.measured_at DESC, turn.role
LIMIT %(most)s

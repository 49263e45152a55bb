-- All lost, loss, no loss, only failed tests, no data; then by loss, then by path.
(
    CASE
        WHEN sent IS NULL THEN 0 WHEN sent = 0 THEN 1 WHEN received = sent THEN 2 WHEN received > 0 THEN 3 ELSE 4
    END::bigint << 52
)
+ (round(coalesce(1000000 * (sent - received) / nullif(sent, 0), 0))::bigint << 31) - path_id

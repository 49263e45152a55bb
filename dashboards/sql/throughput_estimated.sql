-- One row an hour that the period touches: the Mathis estimate (Reno index), bit/s. Where nothing was lost it is only a
-- floor, computed at the upper 95% bound of the loss, and stands in its own column.
SELECT
    hour AS "time",
    CASE WHEN NOT estimate_is_floor THEN estimate_bps END AS "Estimated (Mathis)",
    CASE WHEN estimate_is_floor THEN estimate_bps END AS "Estimated, none lost: at least"
FROM burst_hour
WHERE path_id = NULLIF(${path:sqlstring}, '')::integer
    AND packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
    AND hour > $__timeFrom()::timestamptz - INTERVAL '1 hour' AND hour < $__timeTo()::timestamptz
ORDER BY hour

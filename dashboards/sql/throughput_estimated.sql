-- One row per hour that the period touches, or a day beyond 83 days: the Mathis (Reno) estimate, bit/s. Where nothing
-- was lost it is only a lower bound, computed at the upper 95% bound of the loss, and stands in its own column.
WITH measured AS (
    SELECT *
    FROM reporting.ping
    WHERE tier = reporting.tier($__timeFrom(), $__timeTo())
        AND at >= reporting.start_of(reporting.tier($__timeFrom(), $__timeTo()), $__timeFrom())
        AND at < $__timeTo()::timestamptz
        AND path_id = NULLIF(${path:sqlstring}, '')::integer
        AND packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
)
SELECT
    step.drawn_at AS "time",
    CASE WHEN NOT estimate_is_floor THEN estimate_bps END AS "Mathis estimate",
    CASE WHEN estimate_is_floor THEN estimate_bps END AS "Mathis estimate, no loss: lower bound"
FROM reporting.line_steps(reporting.tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo()) AS step
LEFT JOIN measured ON measured.at = step.at
WHERE EXISTS (SELECT FROM measured)
ORDER BY 1

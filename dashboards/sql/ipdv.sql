-- One row per hour that the period touches, or a day beyond 83 days: the interquartile range of the differences between
-- consecutive RTTs (RFC 3393, RFC 5481), ms; null where there are none.
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
    ipdv_ms AS "IPDV"
FROM reporting.line_steps(reporting.tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo()) AS step
LEFT JOIN measured ON measured.at = step.at
WHERE EXISTS (SELECT FROM measured)
ORDER BY 1

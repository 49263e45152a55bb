-- One row per site that paths begin at, the poorest first: bursts that the plan asked of it in the period, those
-- measured, and those that it could not measure.
SELECT
    path.source AS "Site",
    SUM(bursts_planned)::float8 AS "Planned",
    SUM(bursts_counted)::float8 AS "Measured",
    SUM(bursts_not_measured)::float8 AS "Not measured",
    CASE WHEN SUM(bursts_planned) > 0 THEN
        LEAST(SUM(bursts_counted)::float8 / SUM(bursts_planned), 1)
    END AS "Coverage"
FROM reporting.ping
INNER JOIN reporting.path USING (path_id)
WHERE tier = reporting.pooled_tier($__timeFrom(), $__timeTo())
    AND at >= reporting.start_of(reporting.pooled_tier($__timeFrom(), $__timeTo()), $__timeFrom())
    AND at < $__timeTo()::timestamptz
GROUP BY path.source
ORDER BY "Coverage" NULLS FIRST, path.source

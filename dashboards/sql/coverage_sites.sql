-- One row per site that paths begin at, the poorest first: bursts that the plan asked of it in the period, up to the last
-- whole hour, those measured of them, and those that it could not measure.
SELECT
    site AS "Site",
    SUM(bursts_planned) AS "Planned",
    SUM(bursts_measured) AS "Measured",
    SUM(bursts_not_measured) AS "Not measured",
    CASE WHEN SUM(bursts_planned) > 0 THEN LEAST(SUM(bursts_measured) / SUM(bursts_planned), 1) END AS "Coverage"
FROM reporting.site_coverage(
    reporting.pooled_tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo(), now()
)
GROUP BY site
ORDER BY "Coverage" NULLS FIRST, site

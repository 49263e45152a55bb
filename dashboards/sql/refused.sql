-- One row per site and reason: results of the period rejected, and when the newest.
SELECT
    site AS "Site",
    reason AS "Reason",
    COUNT(*)::float8 AS "Rejected",
    MAX(refused_at) AS "Newest"
FROM reporting.refused
WHERE $__timeFilter(refused_at)
GROUP BY site, reason
ORDER BY "Rejected" DESC, site, reason
LIMIT 100

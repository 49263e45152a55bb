-- One row a site and reason: results of the period that were refused, and when the newest.
SELECT
    site AS "Site",
    reason AS "Reason",
    COUNT(*)::float8 AS "Refused",
    MAX(refused_at) AS "Newest"
FROM reporting.refused
WHERE $__timeFilter(refused_at)
GROUP BY site, reason
ORDER BY "Refused" DESC, site, reason
LIMIT 100

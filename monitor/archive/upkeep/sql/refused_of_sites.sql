-- One row for each site with refused results: its name, how many are kept, the newest with when and why.
SELECT DISTINCT ON (site.name)
    site.name AS site,
    count(*) OVER (PARTITION BY site_id) AS refused,
    refused_at AS newest_at,
    reason AS newest_reason
FROM refused_result
INNER JOIN site ON site.id = site_id
ORDER BY site.name, refused_result.id DESC

-- One row for each of these sites, by name: site_id, name, and the results that its agent's spool has dropped since it
-- was created, as the agent counts them; 0 before its first report.
SELECT site.id AS site_id, site.name, coalesce(agent_health.dropped, 0) AS dropped
FROM site
LEFT JOIN agent_health ON agent_health.site_id = site.id
WHERE site.id = ANY(%(site_ids)s::integer[])
ORDER BY site.name

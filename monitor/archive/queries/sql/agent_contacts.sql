-- One row for each site that ever delivered, from its newest batch: the fields of monitor.archive.queries.operation.deliveries.AgentContact.
SELECT site.id AS site_id, received_at, agent_version, queued, dropped
FROM site
CROSS JOIN LATERAL (
    SELECT received_at, agent_version, queued, dropped
    FROM received_batch
    WHERE site_id = site.id
    ORDER BY received_at DESC
    LIMIT 1
) AS newest
ORDER BY site.id

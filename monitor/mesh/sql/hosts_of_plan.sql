-- These hosts with their sites; peers is null for the usual host, which all sites reach at one address.
SELECT
    host.id, host.address, nullif(host.peers, '[]') AS peers, host.interface, host.namespace, host.uplink_id,
    site.id AS site_id, site.name AS site, site.has_agent
FROM host
INNER JOIN site ON site.id = host.site_id
WHERE host.id = ANY(%(host_ids)s::bigint[])

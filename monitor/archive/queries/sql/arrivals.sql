-- One row for each spool with batches received since a moment that were not seen: the fields of
-- monitor.archive.queries.present.lost_order.Arrival. Numbers of a spool are committed in their order. Site by site, as the index is.
SELECT
    site.id AS site_id,
    spool,
    max(newest.number) AS number,
    min(measured_from) AS measured_from
FROM site
CROSS JOIN LATERAL (
    SELECT spool, number, measured_from
    FROM received_batch
    WHERE site_id = site.id AND received_at >= %(since)s::timestamptz
) AS newest
LEFT JOIN
    unnest(%(site_ids)s::integer[], %(spools)s::text[], %(numbers)s::bigint[]) AS seen (site_id, seen_spool, number)
    ON seen.site_id = site.id AND seen.seen_spool = spool
WHERE newest.number > coalesce(seen.number, 0)
GROUP BY site.id, spool
ORDER BY site.id, spool

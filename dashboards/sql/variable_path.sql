-- Paths between the two chosen sites: hosts and family as text, the path's id as value. Paths in use first, IPv4 first.
SELECT
    source_host.name || ' → ' || destination_host.name || ' (IPv' || path.family || ')'
        || CASE WHEN path.retired_at IS NULL THEN '' ELSE ', retired' END AS __text,
    path.id::text AS __value
FROM path
JOIN host AS source_host ON source_host.id = path.source_id
JOIN site AS source_site ON source_site.id = source_host.site_id
JOIN host AS destination_host ON destination_host.id = path.destination_id
JOIN site AS destination_site ON destination_site.id = destination_host.site_id
WHERE source_site.name = ${source:sqlstring} AND destination_site.name = ${destination:sqlstring}
ORDER BY path.retired_at IS NOT NULL, path.family, source_host.name, destination_host.name

-- Sites that a path from the chosen source ends at: title as text, name as value, retired sites last.
SELECT
    site.title || CASE WHEN site.retired_at IS NULL THEN '' ELSE ' (retired)' END AS __text,
    site.name AS __value
FROM site
WHERE EXISTS (
    SELECT
    FROM path
    JOIN host AS source_host ON source_host.id = path.source_id
    JOIN site AS source_site ON source_site.id = source_host.site_id
    JOIN host AS destination_host ON destination_host.id = path.destination_id
    WHERE source_site.name = ${source:sqlstring} AND destination_host.site_id = site.id
)
ORDER BY site.retired_at IS NOT NULL, site.title

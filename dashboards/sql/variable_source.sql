-- Sites that paths begin at: title as text, name as value. Retired sites come last, since their history stays.
SELECT
    site.title || CASE WHEN site.retired_at IS NULL THEN '' ELSE ' (retired)' END AS __text,
    site.name AS __value
FROM site
WHERE EXISTS (SELECT FROM path JOIN host ON host.id = path.source_id WHERE host.site_id = site.id)
ORDER BY site.retired_at IS NOT NULL, site.title

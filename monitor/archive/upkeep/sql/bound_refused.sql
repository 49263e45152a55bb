-- Deletes all but the newest so many refused results of a site.
DELETE FROM refused_result
WHERE
    site_id = %(site_id)s
    AND id <= (
        SELECT id FROM refused_result
        WHERE site_id = %(site_id)s
        ORDER BY id DESC
        OFFSET %(most)s
        LIMIT 1
    )

-- Of each path in use with a test of these kinds, from a site of `sources` to one of `destinations` (null: any): its ends,
-- whether it is measured and bad, and `badness`, by which paths are in order. `place` numbers the place of each site.
-- Paths and their `rows` are grouped and not joined: of the newest hours the planner expects a single row, and would join
-- 100,000 to 100,000 row by row.
place AS MATERIALIZED (
    SELECT host.id AS host_id, site.id AS site_id, site.name AS site, each_site.place
    FROM unnest(%(site_ids)s::integer[], %(places)s::integer[]) AS each_site (site_id, place)
    INNER JOIN site ON site.id = each_site.site_id
    INNER JOIN host ON host.site_id = site.id
),
known AS (
    SELECT path_id, max(source_id) AS source_id, max(destination_id) AS destination_id, {figures}
    FROM (
        SELECT id AS path_id, source_id, destination_id, {nulls}
        FROM path
        WHERE
            retired_at IS NULL
            AND EXISTS (
                SELECT FROM measurement
                INNER JOIN test ON test.id = measurement.test_id
                WHERE measurement.path_id = path.id AND measurement.retired_at IS NULL AND test.kind = ANY(%(kinds)s)
            )
        UNION ALL
        {rows}
    ) AS path_or_row
    GROUP BY path_id
    HAVING max(source_id) IS NOT NULL
),
planned AS (
    SELECT
        path_id, source.site AS source, destination.site AS destination,
        source.place AS from_place, destination.place AS to_place,
        coalesce({is_measured}, FALSE) AS is_measured, coalesce({is_bad}, FALSE) AS is_bad,
        {badness} AS badness
    FROM known
    INNER JOIN place AS source ON source.host_id = source_id
    INNER JOIN place AS destination ON destination.host_id = destination_id
    WHERE
        (%(sources)s::integer[] IS NULL OR source.site_id = ANY(%(sources)s::integer[]))
        AND (%(destinations)s::integer[] IS NULL OR destination.site_id = ANY(%(destinations)s::integer[]))
)

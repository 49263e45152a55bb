-- Of each path in use with a test of these kinds, from a site of `sources` to one of `destinations` (null: any), its ends,
-- the packets of the period and a metric's value (null for the loss, which the packets tell); nulls without a summary. `place` numbers the place of each site. `badness` orders paths as
-- monitor.overview.path_figures.badness.
-- Paths and summaries are grouped and not joined: of the newest hours the planner expects a single row, and would join
-- 100,000 to 100,000 row by row.
place AS MATERIALIZED (
    SELECT host.id AS host_id, site.id AS site_id, site.name AS site, each_site.place
    FROM unnest(%(site_ids)s::integer[], %(places)s::integer[]) AS each_site (site_id, place)
    INNER JOIN site ON site.id = each_site.site_id
    INNER JOIN host ON host.site_id = site.id
),
counted AS (
    SELECT
        path_id, max(source_id) AS source_id, max(destination_id) AS destination_id, max(family) AS family,
        sum(bursts) AS bursts, sum(bursts_all_lost) AS bursts_all_lost,
        sum(bursts_during_test) AS bursts_during_test, sum(bursts_not_measured) AS bursts_not_measured,
        sum(sent) AS sent, sum(received) AS received, max(value) AS value
    FROM (
        SELECT
            id AS path_id, source_id, destination_id, family, NULL::bigint AS bursts, NULL::bigint AS bursts_all_lost,
            NULL::bigint AS bursts_during_test, NULL::bigint AS bursts_not_measured, NULL::bigint AS sent,
            NULL::bigint AS received, NULL::double precision AS value
        FROM path
        WHERE
            retired_at IS NULL
            AND EXISTS (
                SELECT FROM measurement
                INNER JOIN test ON test.id = measurement.test_id
                WHERE measurement.path_id = path.id AND measurement.retired_at IS NULL AND test.kind = ANY(%(kinds)s)
            )
        UNION ALL
        {summaries}
    ) AS path_or_summary
    GROUP BY path_id
    HAVING max(source_id) IS NOT NULL
),
planned AS (
    SELECT
        path_id, family, source.site AS source, destination.site AS destination,
        source.place AS from_place, destination.place AS to_place,
        bursts, bursts_all_lost, bursts_during_test, bursts_not_measured, sent, received, value,
        {badness} AS badness
    FROM counted
    INNER JOIN place AS source ON source.host_id = source_id
    INNER JOIN place AS destination ON destination.host_id = destination_id
    WHERE
        (%(sources)s::integer[] IS NULL OR source.site_id = ANY(%(sources)s::integer[]))
        AND (%(destinations)s::integer[] IS NULL OR destination.site_id = ANY(%(destinations)s::integer[]))
)

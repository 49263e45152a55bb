-- One row: state of the mesh. Paths in use, those of which packets were sent in the period, the loss of all of them
-- together, bursts measured over bursts planned up to the last whole hour, their incidents open now, agents of
-- which nothing came for {late_after_min} minutes, and for how many seconds the oldest overdue result has waited for a
-- summary that the figures are of.
WITH chosen AS (
    SELECT path_id
    FROM reporting.path
    WHERE NOT is_retired
    AND family = NULLIF(${family:sqlstring}, '')::integer
    AND (${group:sqlstring} IN ('', '*') OR (
        source IN (SELECT site FROM reporting.site_group WHERE group_name = ${group:sqlstring})
        AND destination IN (SELECT site FROM reporting.site_group WHERE group_name = ${group:sqlstring})
    ))
),
pooled AS (
    SELECT
        COUNT(DISTINCT path_id) FILTER (WHERE sent > 0) AS paths,
        SUM(sent) AS sent,
        SUM(received) AS received
    FROM reporting.ping_between($__timeFrom(), $__timeTo())
    WHERE packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
        AND path_id IN (SELECT path_id FROM chosen)
),
covered AS (
    SELECT SUM(bursts_measured) AS bursts, SUM(bursts_planned) AS planned
    FROM reporting.path_coverage(
        reporting.pooled_tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo(), now()
    )
    WHERE packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer AND path_id IN (SELECT path_id FROM chosen)
)
SELECT
    (SELECT COUNT(*) FROM chosen)::float8 AS "Paths in use",
    pooled.paths::float8 AS "Paths measured",
    (pooled.sent - pooled.received)::float8 / NULLIF(pooled.sent, 0) AS "Packets lost",
    CASE WHEN covered.planned > 0 THEN LEAST(covered.bursts / covered.planned, 1) END AS "Coverage",
    (
        SELECT COUNT(*)
        FROM reporting.incident
        WHERE closed_at IS NULL AND incident_id IN (
            SELECT incident_id FROM reporting.incident_path WHERE path_id IN (SELECT path_id FROM chosen)
        )
    )::float8 AS "Open incidents",
    (
        SELECT COUNT(*) FROM reporting.agent WHERE accepted_at IS NULL OR accepted_at < now() - INTERVAL '{late_after_min} minutes'
    )::float8 AS "Silent agents",
    (
        SELECT COALESCE(EXTRACT(EPOCH FROM now() - MIN(since)), 0)::float8
        FROM reporting.waiting
        WHERE tier = reporting.pooled_tier($__timeFrom(), $__timeTo()) AND overdue > 0
            AND NOT (reporting.is_short($__timeFrom(), $__timeTo()) AND reporting.keeps_bursts($__timeTo()))
    ) AS "Summaries behind"
FROM pooled
CROSS JOIN covered

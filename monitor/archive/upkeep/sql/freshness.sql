-- One row: when the centre last did its work, as the fields of monitor.archive.upkeep.freshness.Freshness. A mesh without a site
-- that measures has no least_every_s.
SELECT
    (SELECT applied_at FROM mesh) AS mesh_applied_at,
    (SELECT at FROM last_run WHERE name = 'evaluation') AS evaluated_at,
    (SELECT at FROM last_run WHERE name = 'notification') AS notified_at,
    (SELECT min(marked_at) FROM dirty_hour) AS summaries_wait_since,
    (
        SELECT max(agent_health.accepted_at)
        FROM agent_health
        INNER JOIN site ON site.id = agent_health.site_id
        WHERE site.has_agent AND site.retired_at IS NULL
    ) AS delivered_at,
    (
        SELECT min(test.every_s)
        FROM test
        WHERE EXISTS (SELECT FROM measurement WHERE measurement.test_id = test.id AND measurement.retired_at IS NULL)
    ) AS least_every_s

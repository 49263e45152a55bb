-- A site's agent has accounted for all that began before `until`; `since` is the first cycle that it reported, and nothing is
-- planned before it.
INSERT INTO agent_account (site_id, since, until)
VALUES (
    %(site_id)s,
    least(%(until)s::timestamptz, CASE WHEN NOT EXISTS (SELECT FROM agent_account WHERE site_id = %(site_id)s) THEN (
        SELECT min(to_timestamp(lower(cycle_day.cycles) * cycle_day.every_s))
        FROM cycle_day
        INNER JOIN path ON path.id = cycle_day.path_id
        INNER JOIN host ON host.id = path.source_id
        WHERE host.site_id = %(site_id)s
    ) END),
    %(until)s::timestamptz
)
ON CONFLICT (site_id) DO UPDATE SET until = excluded.until
WHERE agent_account.until < excluded.until

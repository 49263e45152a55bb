-- Stores the health of a site's delivery, unless that of a later one is stored. The counter of dropped packets, `drops`, is
-- added to those of the last hour once in `every_s` seconds, and left alone where it is null.
INSERT INTO agent_health AS stored (site_id, accepted_at, agent_version, queued, dropped, health, drops_past)
VALUES (
    %(site_id)s, %(accepted_at)s, %(agent_version)s, %(queued)s, %(dropped)s, %(health)s,
    CASE
        WHEN %(drops)s::bigint IS NULL THEN '[]'::jsonb
        ELSE jsonb_build_array(jsonb_build_array(%(at_s)s::float8, %(drops)s::bigint))
    END
)
ON CONFLICT (site_id) DO UPDATE SET
    accepted_at = excluded.accepted_at,
    agent_version = excluded.agent_version,
    queued = excluded.queued,
    dropped = excluded.dropped,
    health = excluded.health,
    drops_past = CASE
        WHEN
            %(drops)s::bigint IS NULL
            OR (stored.drops_past -> -1 ->> 0)::float8 > %(at_s)s::float8 - %(every_s)s::float8
            THEN stored.drops_past
        ELSE coalesce((
            SELECT jsonb_agg(sample ORDER BY place)
            FROM jsonb_array_elements(stored.drops_past) WITH ORDINALITY AS past (sample, place)
            WHERE (sample ->> 0)::float8 >= %(at_s)s::float8 - %(kept_s)s::float8
        ), '[]'::jsonb) || excluded.drops_past
    END
WHERE stored.accepted_at <= excluded.accepted_at

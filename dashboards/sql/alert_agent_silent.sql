-- One row per site whose agent has ever delivered: how long ago its latest delivery was accepted, s.
SELECT
    site,
    EXTRACT(EPOCH FROM now() - accepted_at)::float8 AS silent_s
FROM reporting.agent
WHERE accepted_at IS NOT NULL
ORDER BY site

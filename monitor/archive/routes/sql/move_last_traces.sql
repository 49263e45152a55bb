-- Set the time of the last trace of these periods.
UPDATE path_route
SET last_at = later.last_at
FROM unnest(%(ids)s::bigint[], %(last_at)s::timestamptz[]) AS later (id, last_at)
WHERE path_route.id = later.id

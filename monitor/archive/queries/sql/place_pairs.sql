-- One row for each pair of places with a planned path between them: how many paths, how many of them are measured and how
-- many are bad, and the worst, as the fields of monitor.archive.queries.wide.ranking.PlacePair.
WITH {planned},
pair AS (
    SELECT
        from_place, to_place, count(*) AS paths, count(*) FILTER (WHERE is_measured) AS measured,
        count(*) FILTER (WHERE is_bad) AS bad, max(badness) AS badness
    FROM planned
    GROUP BY from_place, to_place
)
SELECT pair.from_place, pair.to_place, paths, measured, bad, path_id
FROM pair
INNER JOIN planned ON planned.badness = pair.badness

-- The planned paths with this text in the name of an end (null: any), worst first, those of `first` before all others: a
-- page of them, each with the number of all. `only_bad` leaves out those that are not bad, unless they are among `first`.
WITH {planned}
SELECT path_id, count(*) OVER () AS total
FROM planned
WHERE
    (%(name)s::text IS NULL OR strpos(lower(source), %(name)s) > 0 OR strpos(lower(destination), %(name)s) > 0)
    AND (NOT %(only_bad)s OR is_bad OR path_id = ANY(%(first)s::integer[]))
ORDER BY path_id = ANY(%(first)s::integer[]) DESC, badness DESC
LIMIT %(limit)s OFFSET %(offset)s

-- The planned paths with this text in the name of an end (null: any), worst first, those of `first` before all others: a page of them,
-- as the fields of monitor.archive.queries.wide.losses.PathLoss, each with the number of all. `only_bad` leaves out
-- those that lost less than `bad_ratio`, unless they are among `first`.
WITH {planned}
SELECT
    path_id, family, source, destination, bursts, bursts_all_lost, bursts_during_test, bursts_not_measured, sent,
    received, count(*) OVER () AS total
FROM planned
WHERE
    (%(name)s::text IS NULL OR strpos(lower(source), %(name)s) > 0 OR strpos(lower(destination), %(name)s) > 0)
    AND (
        NOT %(only_bad)s OR path_id = ANY(%(first)s::integer[])
        OR coalesce(sent > 0 AND sent - received >= %(bad_ratio)s * sent, FALSE)
    )
ORDER BY path_id = ANY(%(first)s::integer[]) DESC, badness DESC
LIMIT %(limit)s OFFSET %(offset)s

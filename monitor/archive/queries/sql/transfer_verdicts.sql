-- One row for each of the given paths with a throughput test in [since, until) whose limit was told: the fields of
-- monitor.archive.queries.for_reports.TransferVerdict, of the commonest verdict. `newest_sentence` is that
-- of the newest test. `evidence` has the names of its figures.
-- Those that somebody asked for are left out: their settings are anybody's.
WITH told AS (
    SELECT
        path_id, verdict, count(*) AS tests, max(measured_at) AS newest_at,
        (array_agg(sentence ORDER BY measured_at DESC))[1] AS sentence,
        (array_agg(diagnosis ORDER BY measured_at DESC))[1] AS diagnosis
    FROM throughput_test
    WHERE
        path_id = ANY(%(path_ids)s::integer[]) AND verdict IS NOT NULL AND test <> 'on-demand'
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    GROUP BY path_id, verdict
)
SELECT DISTINCT ON (path_id)
    path_id, verdict, tests, (sum(tests) OVER (PARTITION BY path_id))::bigint AS "of", coalesce(sentence, '') AS sentence,
    coalesce(first_value(sentence) OVER (PARTITION BY path_id ORDER BY newest_at DESC), '') AS newest_sentence,
    ARRAY(SELECT jsonb_array_elements(diagnosis -> 'evidence') ->> 'name') AS evidence
FROM told
ORDER BY path_id, tests DESC, newest_at DESC

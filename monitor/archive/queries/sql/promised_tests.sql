-- One row for each of the given paths with tests that began in [since, until): how many throughput and policer tests say
-- something about the promised rate, how many of them fell short of it (short_bps[i]), how many say nothing because a host
-- or an unknown limit kept them below it; and how many policer tests measured a burst, and one below short_bytes[i].
-- Columns: the fields of monitor.archive.queries.throughput.promised.PromisedTests.
WITH promised AS (
    SELECT path_id, short_bps, short_bytes
    FROM unnest(%(path_ids)s::integer[], %(short_bps)s::double precision[], %(short_bytes)s::double precision[])
        AS promise (path_id, short_bps, short_bytes)
), tests AS (
    SELECT
        path_id, throughput_bps < short_bps AS is_short,
        throughput_bps < short_bps AND NOT coalesce(verdict = ANY(%(network_limits)s::text[]), false) AS is_left_out,
        NULL::boolean AS is_burst_short
    FROM throughput_test INNER JOIN promised USING (path_id)
    WHERE
        measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND throughput_bps IS NOT NULL AND test <> 'on-demand'
    UNION ALL
    SELECT
        path_id, coalesce(sustained_bps < short_bps, false),
        verdict = 'undetermined' OR (verdict = 'no_limit' AND coalesce(peak_bps < short_bps, true)),
        burst_bytes < short_bytes
    FROM policer_result INNER JOIN promised USING (path_id)
    WHERE
        measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz AND verdict IS NOT NULL
        AND test <> 'on-demand'
)
SELECT
    path_id,
    count(*) FILTER (WHERE NOT is_left_out) AS tests,
    count(*) FILTER (WHERE is_short AND NOT is_left_out) AS short,
    count(*) FILTER (WHERE is_left_out) AS left_out,
    count(is_burst_short) AS bursts,
    count(*) FILTER (WHERE is_burst_short) AS bursts_short
FROM tests
GROUP BY path_id
ORDER BY path_id

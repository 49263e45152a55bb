-- One row for each of the given paths with a measured throughput test that began in [since, until): how many there are, and
-- how many are below limits_bps[i]. Those that somebody asked for are left out: their settings are anybody's.
SELECT path_id, count(*) AS "of", count(*) FILTER (WHERE throughput_bps < limit_bps) AS worse
FROM throughput_test
INNER JOIN unnest(%(path_ids)s::integer[], %(limits_bps)s::double precision[]) AS wanted (path_id, limit_bps)
    USING (path_id)
WHERE
    measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz AND throughput_bps IS NOT NULL
    AND test <> 'on-demand'
GROUP BY path_id
ORDER BY path_id

-- Marks the {tier}s dirty in which a summary of a {smaller} of these paths (null: of all) begins in [since, until).
INSERT INTO dirty_summary (tier, path_id, starts_at, marked_at)
SELECT '{tier}', path_id, date_trunc('{tier}', {smaller}, 'UTC') AS starts_at, %(now)s::timestamptz
FROM (
    SELECT path_id, {smaller} FROM burst_{smaller}
    WHERE {smaller} >= %(since)s::timestamptz AND {smaller} < %(until)s::timestamptz
    UNION ALL
    SELECT path_id, {smaller} FROM throughput_{smaller}
    WHERE {smaller} >= %(since)s::timestamptz AND {smaller} < %(until)s::timestamptz
    UNION ALL
    SELECT path_id, {smaller} FROM direction_{smaller}
    WHERE {smaller} >= %(since)s::timestamptz AND {smaller} < %(until)s::timestamptz
) AS part
WHERE %(path_ids)s::integer[] IS NULL OR path_id = ANY(%(path_ids)s::integer[])
GROUP BY path_id, starts_at
ORDER BY path_id, starts_at
ON CONFLICT (tier, path_id, starts_at)
DO UPDATE SET marked_at = least(dirty_summary.marked_at, excluded.marked_at)

-- The summarized weeks of the interface tests of these paths (all if null) from a week on, oldest first: the fields of
-- monitor.archive.queries.throughput.interfaces.InterfaceWeekFigures.
SELECT path_id, test, week, five_minutes, in_p95_bps, out_p95_bps, speed_bps
FROM interface_week
WHERE
    (%(path_ids)s::integer[] IS NULL OR path_id = ANY(%(path_ids)s)) AND week >= %(since)s AND week < %(until)s
    AND five_minutes IS NOT NULL
ORDER BY path_id, test, week

-- Scheduled cycles of these tests on a UTC day by site and outcome. Columns: site, outcome, traces.
SELECT site.name AS site, cycle_day.outcome, sum(upper(cycles.range) - lower(cycles.range))::bigint AS traces
FROM cycle_day
CROSS JOIN unnest(cycle_day.cycles) AS cycles (range)
INNER JOIN path ON path.id = cycle_day.path_id
INNER JOIN host ON host.id = path.source_id
INNER JOIN site ON site.id = host.site_id
WHERE cycle_day.day = (%(since)s::timestamptz AT TIME ZONE 'UTC')::date
    AND cycle_day.test IN (SELECT name FROM test WHERE kind = 'trace')
GROUP BY site.name, cycle_day.outcome
ORDER BY site.name, cycle_day.outcome

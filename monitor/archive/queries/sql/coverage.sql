-- One row for each site and day of [since, until) with bursts planned or measured: the fields of
-- monitor.archive.queries.operation.completeness.SiteCoverage. The function says how far the running day counts; Grafana calls it too.
SELECT
    site.id AS site_id, (coverage.at AT TIME ZONE 'UTC')::date AS day,
    sum(coverage.bursts_planned)::bigint AS bursts_planned,
    sum(coverage.bursts_measured)::bigint AS bursts_measured,
    sum(coverage.bursts_during_test)::bigint AS bursts_during_test
FROM reporting.site_coverage('day', %(since)s::timestamptz, %(until)s::timestamptz, %(now)s::timestamptz) AS coverage
INNER JOIN site ON site.name = coverage.site
GROUP BY site.id, coverage.at
HAVING sum(coverage.bursts_planned) + sum(coverage.bursts_measured) > 0
ORDER BY site_id, day

-- One row for each site in use and step of [since, until) with bursts planned from it: how many, and how many were measured, as
-- monitor.archive.queries.operation.uptime.MeasuredShare.
SELECT
    site.id AS site_id, coverage.at, sum(coverage.bursts_planned)::bigint AS planned,
    sum(coverage.bursts_measured)::double precision AS measured
FROM reporting.site_coverage(
    %(step)s, %(since)s::timestamptz, %(until)s::timestamptz, %(now)s::timestamptz
) AS coverage
INNER JOIN site ON site.name = coverage.site
WHERE site.retired_at IS NULL
GROUP BY site.id, coverage.at
HAVING sum(coverage.bursts_planned) > 0
ORDER BY site_id, coverage.at

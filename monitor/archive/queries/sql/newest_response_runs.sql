-- The newest request-response run with latencies in the day before a moment, of each path in use and test, outside of
-- throughput tests; with a source, those from that site. Columns: the fields of
-- monitor.archive.queries.for_prometheus.NewestResponse.
SELECT
    path.id AS path_id, newest.test, source_site.name AS source_site, destination_site.name AS destination_site,
    source_host.name AS source, destination_host.name AS host, newest.measured_at, newest.median_ms, newest.p95_ms,
    newest.p99_ms, newest.transactions_per_s
FROM (
    SELECT DISTINCT ON (path_id, test) *
    FROM request_response
    WHERE
        measured_at > %(now)s::timestamptz - interval '1 day' AND measured_at <= %(now)s::timestamptz + interval '1 hour'
        AND median_ms IS NOT NULL AND NOT during_test
    ORDER BY path_id, test, measured_at DESC
) AS newest
INNER JOIN path ON path.id = newest.path_id
INNER JOIN host AS source_host ON source_host.id = path.source_id
INNER JOIN host AS destination_host ON destination_host.id = path.destination_id
INNER JOIN site AS source_site ON source_site.id = source_host.site_id
INNER JOIN site AS destination_site ON destination_site.id = destination_host.site_id
WHERE path.retired_at IS NULL AND (%(source)s::text IS NULL OR source_site.name = %(source)s::text)
ORDER BY path.id, newest.test
LIMIT %(most)s

-- One row for each site and hour of [since, until) with packets of this size on paths from the site: their counts. The fields of
-- monitor.archive.queries.trends.HourOfSite.
SELECT source.site_id, summary.hour AS at, sum(summary.sent)::bigint AS sent, sum(summary.received)::bigint AS received
FROM burst_hour AS summary
INNER JOIN path ON path.id = summary.path_id
INNER JOIN host AS source ON source.id = path.source_id
WHERE
    summary.hour >= %(since)s::timestamptz AND summary.hour < %(until)s::timestamptz
    AND summary.packet_bytes = %(packet_bytes)s AND path.retired_at IS NULL
GROUP BY source.site_id, summary.hour
HAVING sum(summary.sent) > 0
ORDER BY source.site_id, summary.hour

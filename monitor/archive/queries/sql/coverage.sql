-- One row for each site and day of [since, until) with bursts planned or measured: the fields of
-- monitor.archive.queries.completeness.SiteCoverage. Days come from their summaries, the one that runs at `hour` from its hours before
-- that. Cycles begin at multiples of every_s since the epoch, as monitor.mesh.queries.planned_bursts counts them;
-- the paths of a site that are measured alike are counted together. Bursts with packets sent during our own tests count
-- by the share of the others.
WITH plan AS MATERIALIZED (
    SELECT host.site_id, every_s, period.started_at, period.ended_at, sum(cardinality(packet_bytes)) AS bursts
    FROM measurement_period AS period
    INNER JOIN measurement ON measurement.id = period.measurement_id
    INNER JOIN path ON path.id = measurement.path_id
    INNER JOIN host ON host.id = path.source_id
    GROUP BY host.site_id, every_s, period.started_at, period.ended_at
),

planned AS (
    SELECT
        site_id, day,
        sum(bursts * greatest(
            0,
            ceil(extract(epoch FROM least(ended_at, day + interval '1 day', %(hour)s::timestamptz)) / every_s)
            - ceil(extract(epoch FROM greatest(started_at, day)) / every_s)
        ))::bigint AS bursts_planned
    FROM generate_series(%(since)s::timestamptz, %(until)s::timestamptz - interval '1 day', '1 day') AS day
    INNER JOIN plan ON started_at < day + interval '1 day' AND (ended_at IS NULL OR ended_at > day)
    GROUP BY site_id, day
),

measured AS (
    SELECT host.site_id, day, round(sum(bursts))::bigint AS bursts_measured
    FROM (
        SELECT path_id, day, bursts - coalesce(bursts_excluded, 0) AS bursts
        FROM burst_day
        WHERE day >= %(since)s::timestamptz AND day < least(%(until)s::timestamptz, %(today)s::timestamptz)
        UNION ALL
        SELECT path_id, %(today)s::timestamptz AS day, bursts - coalesce(bursts_excluded, 0) AS bursts
        FROM burst_hour
        WHERE
            hour >= greatest(%(since)s::timestamptz, %(today)s::timestamptz)
            AND hour < least(%(until)s::timestamptz, %(hour)s::timestamptz)
    ) AS summary
    INNER JOIN path ON path.id = summary.path_id
    INNER JOIN host ON host.id = path.source_id
    GROUP BY host.site_id, day
)

SELECT
    site_id, (day AT TIME ZONE 'UTC')::date AS day, coalesce(bursts_planned, 0) AS bursts_planned,
    coalesce(bursts_measured, 0) AS bursts_measured
FROM planned
FULL JOIN measured USING (site_id, day)
WHERE coalesce(bursts_planned, 0) + coalesce(bursts_measured, 0) > 0
ORDER BY site_id, day

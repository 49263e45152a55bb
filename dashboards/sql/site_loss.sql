-- One row per hour that the period touches (a day beyond two days, a month beyond 92): packets lost over packets sent
-- on all paths out of the chosen site together, and on all paths into it; null where nothing was sent.
WITH pooled AS (
    SELECT
        ping.at,
        (SUM(sent - received) FILTER (WHERE source = ${site:sqlstring}))::float8
            / NULLIF(SUM(sent) FILTER (WHERE source = ${site:sqlstring}), 0) AS lost_out,
        (SUM(sent - received) FILTER (WHERE destination = ${site:sqlstring}))::float8
            / NULLIF(SUM(sent) FILTER (WHERE destination = ${site:sqlstring}), 0) AS lost_in
    FROM reporting.ping
    INNER JOIN reporting.path USING (path_id)
    WHERE tier = reporting.pooled_tier($__timeFrom(), $__timeTo())
        AND at >= reporting.start_of(reporting.pooled_tier($__timeFrom(), $__timeTo()), $__timeFrom())
        AND at < $__timeTo()::timestamptz
        AND packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
        AND ${site:sqlstring} IN (source, destination)
    GROUP BY ping.at
)
SELECT
    step.at AS "time",
    lost_out AS "Out",
    lost_in AS "In"
FROM reporting.steps(reporting.pooled_tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo()) AS step
LEFT JOIN pooled ON pooled.at = step.at
WHERE EXISTS (SELECT FROM pooled)
ORDER BY step.at

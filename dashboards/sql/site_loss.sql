-- Packets lost over packets sent on all paths out of the chosen site together, and on all paths into it: a row per interval
-- of the panel up to three hours, beyond per hour that the period touches (a day beyond two days, a month beyond 92);
-- null where nothing was sent, and where no burst began for more than twice the usual time.
WITH counted AS (
    SELECT
        CASE WHEN reporting.is_short($__timeFrom(), $__timeTo()) THEN
            date_bin(make_interval(secs => GREATEST($__interval_ms, 60000) / 1000.0), ping.at, '2000-01-01Z')
        ELSE ping.at END AS at,
        source, destination, sent, received
    FROM reporting.ping_between($__timeFrom(), $__timeTo()) AS ping
    INNER JOIN reporting.path USING (path_id)
    WHERE packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
        AND ${site:sqlstring} IN (source, destination)
),
pooled AS (
    SELECT
        at,
        LEAD(at) OVER (ORDER BY at) AS next_at,
        (SUM(sent - received) FILTER (WHERE source = ${site:sqlstring}))::float8
            / NULLIF(SUM(sent) FILTER (WHERE source = ${site:sqlstring}), 0) AS lost_out,
        (SUM(sent - received) FILTER (WHERE destination = ${site:sqlstring}))::float8
            / NULLIF(SUM(sent) FILTER (WHERE destination = ${site:sqlstring}), 0) AS lost_in
    FROM counted
    GROUP BY at
),
usual AS (
    SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY next_at - at) AS spacing
    FROM pooled
)
SELECT
    GREATEST(at, $__timeFrom()) AS "time",
    lost_out AS "Out",
    lost_in AS "In"
FROM pooled
WHERE reporting.is_short($__timeFrom(), $__timeTo())
UNION ALL
SELECT at + spacing, NULL, NULL
FROM pooled
CROSS JOIN usual
WHERE next_at - at > 2 * spacing AND reporting.is_short($__timeFrom(), $__timeTo())
UNION ALL
SELECT step.drawn_at, lost_out, lost_in
FROM reporting.line_steps(reporting.pooled_tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo()) AS step
LEFT JOIN pooled ON pooled.at = step.at
WHERE NOT reporting.is_short($__timeFrom(), $__timeTo()) AND EXISTS (SELECT FROM pooled)
ORDER BY 1

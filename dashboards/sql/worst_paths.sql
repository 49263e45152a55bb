-- The 20 paths with the highest loss in the period, pooled over it; paths without loss are excluded.
SELECT
    path.source AS "From",
    path.destination AS "To",
    path.name AS "Path",
    path.family::text AS "Family",
    path.path_id::text AS "Number",
    (SUM(sent) - SUM(received))::float8 / SUM(sent) AS "Loss",
    SUM(rtt_avg_ms * received) / NULLIF(SUM(received), 0) AS "RTT mean",
    SUM(bursts_all_lost)::float8 AS "Bursts with 100% loss",
    SUM(bursts)::float8 AS "Bursts"
FROM reporting.ping_between($__timeFrom(), $__timeTo())
INNER JOIN reporting.path USING (path_id)
WHERE packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
    AND family = NULLIF(${family:sqlstring}, '')::integer
    AND NOT is_retired
    AND (${group:sqlstring} IN ('', '*') OR (
        source IN (SELECT site FROM reporting.site_group WHERE group_name = ${group:sqlstring})
        AND destination IN (SELECT site FROM reporting.site_group WHERE group_name = ${group:sqlstring})
    ))
GROUP BY path.source, path.destination, path.name, path.family, path.path_id
HAVING SUM(received) < SUM(sent)
ORDER BY "Loss" DESC, path.path_id
LIMIT 20

-- One row per path that throughput was tested on in the period or that has a capacity: what was measured, and what the
-- pings of the period let one expect. The estimate is Mathis (Reno), of the pooled loss and the mean RTT; with none
-- lost it is a floor, and stands in its own column. The capacity is the newest of the period.
WITH tcp AS (
    SELECT
        path_id,
        SUM(tests) AS tests,
        SUM(tests_measured) AS measured,
        SUM(throughput_avg_bps * tests_measured) / NULLIF(SUM(tests_measured), 0) AS mean_bps,
        MAX(throughput_max_bps) AS most_bps
    FROM reporting.throughput_between($__timeFrom(), $__timeTo())
    GROUP BY path_id
),
narrow AS (
    SELECT DISTINCT ON (path_id) path_id, capacity_bps
    FROM reporting.capacity
    WHERE $__timeFilter(measured_at) AND capacity_bps IS NOT NULL AND NOT during_test
    ORDER BY path_id, measured_at DESC
),
ping AS (
    SELECT
        path_id,
        SUM(sent) AS sent,
        SUM(received) AS received,
        SUM(rtt_avg_ms * received) / NULLIF(SUM(received), 0) AS rtt_avg_ms
    FROM reporting.ping_between($__timeFrom(), $__timeTo())
    WHERE packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
    GROUP BY path_id
),
expected AS (
    SELECT
        path_id,
        reporting.mathis_estimate_is_floor(rtt_avg_ms, sent, received) AS is_floor,
        reporting.mathis_estimate_bps(rtt_avg_ms, sent, received) AS estimate_bps
    FROM ping
)
SELECT
    path.source AS "From",
    path.destination AS "To",
    path.name AS "Path",
    path.family::text AS "Family",
    path.path_id::text AS "Number",
    COALESCE(tcp.tests, 0)::float8 AS "Tests",
    COALESCE(tcp.measured, 0)::float8 AS "Measured tests",
    tcp.mean_bps AS "Mean",
    tcp.most_bps AS "Maximum",
    CASE WHEN NOT expected.is_floor THEN expected.estimate_bps END AS "Estimate",
    CASE WHEN expected.is_floor THEN expected.estimate_bps END AS "Estimate, lower bound",
    narrow.capacity_bps AS "Capacity"
FROM reporting.path
LEFT JOIN tcp USING (path_id)
LEFT JOIN narrow USING (path_id)
LEFT JOIN expected USING (path_id)
WHERE (tcp.path_id IS NOT NULL OR narrow.path_id IS NOT NULL)
    AND (${group:sqlstring} IN ('', '*') OR (
        source IN (SELECT site FROM reporting.site_group WHERE group_name = ${group:sqlstring})
        AND destination IN (SELECT site FROM reporting.site_group WHERE group_name = ${group:sqlstring})
    ))
ORDER BY "Mean" NULLS LAST, path.path_id

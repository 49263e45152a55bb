-- One row for each ICMP error (its name, and the router that sent it) that bursts of these paths drew in [since, until),
-- with the requests it was about, most first: the fields of monitor.archive.queries.around.IcmpErrors. Reads raw bursts.
SELECT path_id, error ->> 'name' AS name, error ->> 'router' AS router, sum((error ->> 'count')::bigint)::bigint AS count
FROM burst
CROSS JOIN LATERAL jsonb_array_elements(errors) AS error
WHERE
    path_id = ANY(%(path_ids)s::integer[])
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    AND jsonb_typeof(errors) = 'array'
GROUP BY path_id, name, router
ORDER BY count DESC, path_id, name, router
LIMIT %(limit)s

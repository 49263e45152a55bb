-- The newest reading with figures of each interface test of these paths (all if null) since a time: the fields of
-- monitor.archive.queries.throughput.interfaces.InterfaceReading.
SELECT DISTINCT ON (path_id, test)
    path_id, test, measured_at AS at, router, interface, alias, speed_bps, interval_s, in_bps, out_bps, in_errors,
    out_errors, in_drops, out_drops
FROM interface_result
WHERE
    (%(path_ids)s::integer[] IS NULL OR path_id = ANY(%(path_ids)s)) AND measured_at >= %(since)s::timestamptz
    AND measured_at <= %(until)s::timestamptz AND in_bps IS NOT NULL
ORDER BY path_id, test, measured_at DESC

-- One row for each disk-to-disk measurement of this path that began in [since, until), whatever its outcome: the fields of
-- monitor.archive.queries.disk_to_disk.DiskToDiskPoint.
SELECT
    measured_at AS at, test, outcome, tool, streams, file_bytes, moved_bytes, moving_s, syncing_s, disk_to_disk_bps,
    memory_to_memory_bps, read_bps, read_cached_ratio, write_bps, is_verified, verdict, sentence, detail
FROM disk_to_disk_test
WHERE
    path_id = %(path_id)s
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
ORDER BY measured_at

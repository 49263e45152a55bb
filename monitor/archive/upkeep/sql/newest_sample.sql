-- The newest sample, if there is any: the fields of monitor.archive.upkeep.samples.Sample.
SELECT at, since, accepted, refused, newest_measured_at, queued, queue_length, hours_waiting, waited_s, database_bytes
FROM centre_sample
ORDER BY at DESC
LIMIT 1

-- Notes how the centre is; the row, with the fields of monitor.archive.upkeep.samples.Sample. Deliveries are counted from the
-- sample before on, by site, since that is what received_batch has an index for.
INSERT INTO centre_sample (
    at, since, accepted, refused, newest_measured_at, queued, queue_length, hours_waiting, waited_s, database_bytes,
    evaluated_at
)
SELECT
    %(at)s::timestamptz, previous.at, arrived.accepted, arrived.refused, %(newest_measured_at)s::timestamptz,
    (SELECT coalesce(sum(queued), 0) FROM agent_health), %(queue_length)s::integer, waiting.hours, waiting.longest_s,
    pg_database_size(current_database()), (SELECT at FROM last_run WHERE name = 'evaluation')
FROM (
    SELECT greatest(coalesce(max(at), %(shortest)s::timestamptz), %(earliest)s::timestamptz) AS at
    FROM centre_sample
    WHERE at < %(at)s::timestamptz
) AS previous
CROSS JOIN LATERAL (
    SELECT coalesce(sum(batch.accepted), 0) AS accepted, coalesce(sum(batch.refused), 0) AS refused
    FROM site
    INNER JOIN received_batch AS batch
        ON batch.site_id = site.id AND batch.received_at > previous.at AND batch.received_at <= %(at)s::timestamptz
) AS arrived
CROSS JOIN (
    SELECT
        count(*) AS hours,
        greatest(0, coalesce(extract(epoch FROM %(at)s::timestamptz - min(marked_at)), 0)) AS longest_s
    FROM dirty_hour
) AS waiting
ON CONFLICT (at) DO UPDATE SET queue_length = excluded.queue_length
RETURNING
    at, since, accepted, refused, newest_measured_at, queued, queue_length, hours_waiting, waited_s, database_bytes

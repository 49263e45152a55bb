-- Notes a batch, one row affected, unless its number has been noted before.
INSERT INTO received_batch (
    site_id, spool, number, received_at, sent_at, agent_version, accepted, refused, queued, dropped,
    measured_from
)
VALUES (
    %(site_id)s, %(spool)s, %(number)s, %(received_at)s, %(sent_at)s, %(agent_version)s, %(accepted)s, %(refused)s,
    %(queued)s, %(dropped)s, %(measured_from)s
)
ON CONFLICT DO NOTHING

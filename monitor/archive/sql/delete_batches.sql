-- Deletes what was noted of batches before a moment, but for the newest batch of each site: the last that was heard of it.
DELETE FROM received_batch
WHERE
    received_at < %(before)s::timestamptz
    AND EXISTS (
        SELECT FROM received_batch AS newer
        WHERE newer.site_id = received_batch.site_id AND newer.received_at > received_batch.received_at
    )

-- Deletes what the centre noted of itself before a moment.
DELETE FROM centre_sample
WHERE at < %(before)s::timestamptz

-- Deletes the results that were refused before a moment.
DELETE FROM refused_result WHERE refused_at < %(before)s::timestamptz

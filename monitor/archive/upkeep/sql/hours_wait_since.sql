-- The arrival of the oldest result that waits for its summary of an hour in [since, until); null where none does.
SELECT min(marked_at)
FROM dirty_hour
WHERE hour >= %(since)s AND hour < %(until)s

-- Notes from when on all of a kind of records is kept; never earlier than it was noted before.
INSERT INTO kept_since (key, since) VALUES (%(key)s, %(since)s::timestamptz)
ON CONFLICT (key) DO UPDATE SET since = greatest(kept_since.since, excluded.since)

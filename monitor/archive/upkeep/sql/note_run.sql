-- Notes that work of this name was done; never an earlier time after a later one. Returns the mark.
INSERT INTO last_run (name, at) VALUES (%(name)s, %(at)s)
ON CONFLICT (name) DO UPDATE SET at = greatest(last_run.at, excluded.at)
RETURNING at

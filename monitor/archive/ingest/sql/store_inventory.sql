-- Stores an inventory unless it is there, and moves the time of its newest test on. One row: its identifier.
INSERT INTO host_inventory AS stored (digest, inventory, last_at)
VALUES (%(digest)s, %(inventory)s::jsonb, %(at)s::timestamptz)
ON CONFLICT (digest) DO UPDATE SET last_at = greatest(stored.last_at, excluded.last_at)
RETURNING id

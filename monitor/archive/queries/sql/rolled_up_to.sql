-- The oldest mark of a summary of these tiers that is to be merged again; null where none is.
SELECT min(marked_at) FROM dirty_summary WHERE tier = ANY(%(tiers)s::text[])

-- The oldest mark of an hour, or of a summary of these tiers, that is to be computed again; null where none is.
SELECT least(
    (SELECT min(marked_at) FROM dirty_hour),
    (SELECT min(marked_at) FROM dirty_summary WHERE tier = ANY(%(tiers)s::text[]))
)

-- Takes up to limit {tier}s away that were marked dirty at `marked_by` or before, or that have no summary yet, longest
-- waiting first, and returns their path_id, start and marked_at. Marks that another transaction holds are passed over.
DELETE FROM dirty_summary
USING (
    SELECT path_id, starts_at
    FROM dirty_summary
    WHERE
        tier = '{tier}'
        AND (
            marked_at <= %(marked_by)s::timestamptz
            OR NOT EXISTS (
                SELECT FROM burst_{tier} AS summary
                WHERE summary.path_id = dirty_summary.path_id AND summary.{tier} = dirty_summary.starts_at
            )
        )
    ORDER BY marked_at, path_id, starts_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
) AS taken
WHERE
    dirty_summary.tier = '{tier}' AND dirty_summary.path_id = taken.path_id
    AND dirty_summary.starts_at = taken.starts_at
RETURNING dirty_summary.path_id, dirty_summary.starts_at, dirty_summary.marked_at

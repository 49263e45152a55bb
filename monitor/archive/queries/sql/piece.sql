-- The summaries of a stretch of {tier}s.
SELECT {columns}
FROM burst_{tier}
WHERE
    {tier} >= %(since_{number})s::timestamptz AND {tier} < %(until_{number})s::timestamptz
    AND (%(packet_bytes)s::integer IS NULL OR packet_bytes = %(packet_bytes)s::integer)
    AND (%(path_ids)s::integer[] IS NULL OR path_id = ANY(%(path_ids)s::integer[]))

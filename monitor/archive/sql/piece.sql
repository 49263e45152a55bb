-- The summaries of a stretch of {tier}s. A size is always named, since the index by time begins with it.
SELECT {columns}
FROM burst_{tier}
WHERE
    {tier} >= %(since_{number})s::timestamptz AND {tier} < %(until_{number})s::timestamptz
    AND packet_bytes = ANY({sizes})
    AND (%(path_ids)s::integer[] IS NULL OR path_id = ANY(%(path_ids)s::integer[]))

-- One row for each of these paths and packet size with a plan in [since, until): how many of its cycles begin then.
SELECT
    plan.path_id,
    size AS packet_bytes,
    sum(reporting.cycles(
        plan.every_s, greatest(plan.started_at, %(since)s::timestamptz), least(plan.ended_at, %(until)s::timestamptz)
    ))::bigint AS bursts
FROM reporting.plan
CROSS JOIN unnest(plan.packet_bytes) AS size
WHERE
    plan.path_id = ANY(%(path_ids)s::integer[])
    AND plan.started_at < %(until)s::timestamptz
    AND (plan.ended_at IS NULL OR plan.ended_at > %(since)s::timestamptz)
GROUP BY plan.path_id, size

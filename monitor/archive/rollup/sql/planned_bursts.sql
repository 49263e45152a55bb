-- How many bursts of a path and packet size the mesh asked for in one {tier}: cycles begin at multiples of every_s since
-- the epoch. Null where there was no plan, as before the agent's first report.
SELECT
    sum(reporting.cycles(
        every_s, greatest(plan.started_at, {tier}), least(plan.ended_at, {tier} + interval '1 {tier}')
    ))::integer AS bursts_planned
FROM reporting.plan
WHERE
    plan.path_id = counted.path_id AND counted.packet_bytes = ANY(plan.packet_bytes)
    AND plan.started_at < {tier} + interval '1 {tier}'
    AND (plan.ended_at IS NULL OR plan.ended_at > {tier})

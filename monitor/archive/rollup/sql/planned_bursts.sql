-- How many bursts of a path and packet size the mesh asked for in one {tier}: cycles begin at multiples of every_s since
-- the epoch. Null where there was no plan. As monitor.mesh.queries.planned_bursts counts them.
SELECT
    sum(reporting.cycles(
        every_s, greatest(plan.started_at, {tier}), least(plan.ended_at, {tier} + interval '1 {tier}')
    ))::integer AS bursts_planned
FROM measurement
INNER JOIN measurement_period AS plan ON plan.measurement_id = measurement.id
WHERE
    measurement.path_id = counted.path_id AND counted.packet_bytes = ANY(plan.packet_bytes)
    AND plan.started_at < {tier} + interval '1 {tier}'
    AND (plan.ended_at IS NULL OR plan.ended_at > {tier})

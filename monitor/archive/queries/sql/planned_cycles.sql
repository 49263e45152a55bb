-- Part of sql/pooled.sql: cycles of the path and packet size that the plan has in a period, with or without summaries, as
-- reporting.path_coverage counts them.
(
    SELECT sum(reporting.cycles(
        plan.every_s,
        greatest(plan.started_at, %(since_{first})s::timestamptz),
        least(plan.ended_at, %(until_{last})s::timestamptz)
    ))
    FROM reporting.plan
    WHERE plan.path_id = piece.path_id AND piece.packet_bytes = ANY(plan.packet_bytes)
)

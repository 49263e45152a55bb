-- One row for every whole hour that the period touches, or day beyond 83 days, measured or not, in bursts:
--   Measured           all packets sent, at least one reply
--   100% loss          all packets sent, no reply: measured, shown separately
--   During throughput test  measured, with all packets sent under load: in no other figure than latency under load
--   Not measured       the agent says why: no such name, no permission, no route …
--   Not reported       due by the plan, no result received. Null for hours that have not ended yet.
WITH step AS (
    SELECT *
    FROM reporting.steps(reporting.tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo())
),
due AS (
    SELECT
        step.at,
        SUM(reporting.cycles(
            plan.every_s, GREATEST(plan.started_at, step.at), LEAST(plan.ended_at, step.ends_at)
        )) AS bursts
    FROM step
    CROSS JOIN reporting.plan
    WHERE plan.path_id = NULLIF(${path:sqlstring}, '')::integer
        AND NULLIF(${packet_bytes:sqlstring}, '')::integer = ANY (plan.packet_bytes)
        AND step.ends_at <= now()
    GROUP BY step.at
),
measured AS (
    SELECT *
    FROM reporting.ping
    WHERE tier = reporting.tier($__timeFrom(), $__timeTo())
        AND at >= reporting.start_of(reporting.tier($__timeFrom(), $__timeTo()), $__timeFrom())
        AND at < $__timeTo()::timestamptz
        AND path_id = NULLIF(${path:sqlstring}, '')::integer
        AND packet_bytes = NULLIF(${packet_bytes:sqlstring}, '')::integer
)
SELECT
    reporting.bar_at(
        step.at, reporting.tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo()
    ) AS "time",
    CASE WHEN measured.at IS NOT NULL THEN
        GREATEST(0, measured.bursts - measured.bursts_all_lost)
    END::float8 AS "Measured",
    measured.bursts_all_lost::float8 AS "100% loss",
    measured.bursts_during_test::float8 AS "During throughput test",
    measured.bursts_not_measured::float8 AS "Not measured",
    CASE WHEN due.bursts IS NOT NULL THEN GREATEST(0, due.bursts - COALESCE(
        reporting.bursts_measured(measured.bursts, measured.bursts_during_test) + measured.bursts_not_measured, 0
    ))::float8 END AS "Not reported"
FROM step
LEFT JOIN due ON due.at = step.at
LEFT JOIN measured ON measured.at = step.at
ORDER BY step.at

-- One row for each path, test, outcome and reason of what was to begin in [since, until): the fields of
-- monitor.archive.queries.operation.ledger.LedgerLine. Each planned cycle and each slot is counted in exactly one row.
--
-- Whatever is known of a cycle is a claim on it, and of several the one of the least rank counts: what was measured, other
-- outcomes, the agent's gaps by reason, then what the agent has passed over, last what nobody has accounted for.
--
-- Of a time before the one from which on all is kept nothing is counted: it is gone, and not missing.
WITH kept AS (
    SELECT
        least(%(until)s::timestamptz, greatest(%(since)s::timestamptz, max(since) FILTER (WHERE key = 'ledger'))) AS since,
        greatest(%(since)s::timestamptz, max(since)) AS slots_since
    FROM kept_since
    WHERE key IN ('ledger', 'slots')
),

planned AS (
    SELECT
        measurement.path_id,
        test.name AS test,
        plan.every_s,
        host.site_id,
        range_agg(int8range(
            ceil(extract(epoch FROM greatest(plan.started_at, kept.since)) / plan.every_s)::bigint,
            ceil(extract(epoch FROM least(plan.ended_at, %(until)s::timestamptz)) / plan.every_s)::bigint
        )) AS cycles
    FROM measurement_period AS plan
    INNER JOIN measurement ON measurement.id = plan.measurement_id
    INNER JOIN test ON test.id = measurement.test_id
    INNER JOIN path ON path.id = measurement.path_id
    INNER JOIN host ON host.id = path.source_id
    CROSS JOIN kept
    WHERE
        test.kind = ANY(%(kinds_in_cycles)s::text[])
        AND measurement.path_id = ANY(%(path_ids)s::integer[])
        AND plan.started_at < %(until)s::timestamptz
        AND (plan.ended_at IS NULL OR plan.ended_at > kept.since)
        AND kept.since < %(until)s::timestamptz
    GROUP BY measurement.path_id, test.name, plan.every_s, host.site_id
),

gap AS (
    SELECT site_id, test, every_s, reason, since, until
    FROM agent_gap
    WHERE
        site_id IN (SELECT site_id FROM planned)
        AND since < %(until)s::timestamptz AND until > %(since)s::timestamptz
),

claim AS (
    SELECT
        planned.path_id,
        planned.test,
        planned.every_s,
        CASE reported.outcome WHEN 'measured' THEN 0 WHEN 'missed' THEN 2 ELSE 1 END AS rank,
        reported.outcome,
        CASE reported.outcome WHEN 'missed' THEN 'late' END AS reason,
        planned.cycles * range_agg(reported.cycles) AS cycles
    FROM planned
    INNER JOIN cycle_day AS reported
        ON
            reported.path_id = planned.path_id AND reported.test = planned.test
            AND reported.every_s = planned.every_s
            AND reported.day >= (%(since)s::timestamptz AT TIME ZONE 'UTC')::date
            AND reported.day <= (%(until)s::timestamptz AT TIME ZONE 'UTC')::date
    GROUP BY planned.path_id, planned.test, planned.every_s, planned.cycles, reported.outcome

    UNION ALL

    SELECT
        planned.path_id,
        planned.test,
        planned.every_s,
        2 + coalesce(array_position(%(reasons)s::text[], gap.reason), 97) AS rank,
        'missed' AS outcome,
        gap.reason,
        planned.cycles * range_agg(int8range(
            ceil(extract(epoch FROM gap.since) / planned.every_s)::bigint,
            ceil(extract(epoch FROM gap.until) / planned.every_s)::bigint
        )) AS cycles
    FROM planned
    INNER JOIN gap
        ON
            gap.site_id = planned.site_id
            AND (gap.test = '' OR (gap.test = planned.test AND gap.every_s = planned.every_s))
    GROUP BY planned.path_id, planned.test, planned.every_s, planned.cycles, gap.reason

    UNION ALL

    SELECT
        planned.path_id,
        planned.test,
        planned.every_s,
        rest.rank,
        rest.outcome,
        rest.reason,
        planned.cycles * int8multirange(int8range(
            NULL,
            ceil(extract(epoch FROM CASE rest.rank WHEN 100 THEN account.since ELSE account.until END) / planned.every_s)
            ::bigint
        )) AS cycles
    FROM planned
    INNER JOIN agent_account AS account ON account.site_id = planned.site_id
    CROSS JOIN (
        VALUES (100, 'unknown', NULL), (101, 'missed', 'not_in_plan')
    ) AS rest (rank, outcome, reason)

    UNION ALL

    SELECT path_id, test, every_s, 102 AS rank, 'awaited' AS outcome, NULL AS reason, cycles FROM planned
),

counted AS (
    SELECT
        path_id,
        test,
        rank,
        outcome,
        reason,
        cycles - coalesce(
            range_agg(cycles) OVER (
                PARTITION BY path_id, test, every_s ORDER BY rank, outcome
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            '{}'
        ) AS cycles
    FROM claim
),

line AS (
    SELECT path_id, test, rank, outcome, reason, upper(stretch) - lower(stretch) AS count
    FROM counted
    CROSS JOIN LATERAL unnest(cycles) AS stretch

    UNION ALL

    SELECT
        measurement.path_id,
        test.name AS test,
        CASE WHEN slot.outcome = 'measured' THEN 0 WHEN slot.outcome IS NULL THEN 102 ELSE 1 END AS rank,
        coalesce(slot.outcome, 'awaited') AS outcome,
        CASE
            WHEN slot.outcome = 'not_permitted' AND slot.detail LIKE %(budget)s THEN 'over_budget'
            WHEN slot.outcome = 'refused' AND slot.detail ILIKE %(connection_refused)s THEN 'connection_refused'
            WHEN slot.outcome = 'refused' AND slot.detail ILIKE %(timed_out)s THEN 'timeout'
            WHEN slot.outcome IS DISTINCT FROM 'missed' THEN NULL
            WHEN EXISTS (
                SELECT FROM agent_gap
                WHERE
                    agent_gap.site_id = connecting.site_id AND agent_gap.test = '' AND agent_gap.reason = 'agent_offline'
                    AND agent_gap.since <= slot.starts_at AND agent_gap.until > slot.starts_at
            ) THEN 'agent_offline'
            WHEN slot.detail LIKE ANY(%(not_reported)s::text[]) THEN 'not_reported'
            WHEN slot.detail LIKE %(planned_late)s THEN 'not_in_plan'
            ELSE 'late'
        END AS reason,
        1 AS count
    FROM slot
    INNER JOIN measurement ON measurement.id = slot.measurement_id
    INNER JOIN test ON test.id = measurement.test_id
    INNER JOIN path ON path.id = measurement.path_id
    LEFT JOIN slot_request AS request ON request.slot_id = slot.id
    -- Whose agent is to report: where a parameter of the kind says so, the receiver connects; of such a kind, always an
    -- end behind NAT.
    INNER JOIN host AS source ON source.id = path.source_id
    INNER JOIN host AS destination ON destination.id = path.destination_id
    INNER JOIN host AS connecting
        ON
            connecting.id = CASE
                WHEN source.behind_nat OR %(reversed_by)s::jsonb ->> test.kind IS NULL THEN source.id
                WHEN
                    destination.behind_nat
                    OR coalesce(request.parameters, test.parameters) -> (%(reversed_by)s::jsonb ->> test.kind)
                    = 'true'::jsonb THEN destination.id
                ELSE source.id
            END
    WHERE
        slot.starts_at >= (SELECT slots_since FROM kept) AND slot.starts_at < %(until)s::timestamptz
        AND measurement.path_id = ANY(%(path_ids)s::integer[])
)

SELECT path_id, test, outcome, reason, sum(count)::bigint AS count
FROM line
GROUP BY path_id, test, outcome, reason
ORDER BY path_id, test, min(rank), outcome, reason

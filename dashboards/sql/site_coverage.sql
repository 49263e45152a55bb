-- One row per hour that the period touches (a day beyond two days, a month beyond 92): bursts that the chosen site's
-- agent measured, those during its own throughput tests (a burst that was partly, by that share), those it could not
-- measure, and those that the plan asked for and of which there is nothing; null without a plan.
WITH pooled AS (
    SELECT
        ping.at,
        SUM(bursts_counted) AS measured,
        SUM(bursts - bursts_counted + bursts_during_test) AS during_test,
        SUM(bursts_not_measured) AS not_measured,
        SUM(bursts_planned) AS planned
    FROM reporting.ping
    INNER JOIN reporting.path USING (path_id)
    WHERE tier = reporting.pooled_tier($__timeFrom(), $__timeTo())
        AND at >= reporting.start_of(reporting.pooled_tier($__timeFrom(), $__timeTo()), $__timeFrom())
        AND at < $__timeTo()::timestamptz
        AND source = ${site:sqlstring}
    GROUP BY ping.at
)
SELECT
    step.at AS "time",
    measured::float8 AS "Measured",
    during_test::float8 AS "During throughput test",
    not_measured::float8 AS "Not measured",
    CASE WHEN planned IS NOT NULL THEN
        GREATEST(0, planned - measured - during_test - not_measured)::float8
    END AS "Not reported"
FROM reporting.steps(reporting.pooled_tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo()) AS step
LEFT JOIN pooled ON pooled.at = step.at
WHERE EXISTS (SELECT FROM pooled)
ORDER BY step.at

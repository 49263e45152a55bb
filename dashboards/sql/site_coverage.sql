-- One row per hour that the period touches (a day beyond two days, a month beyond 92): bursts that the chosen site's
-- agent measured, those measured with all packets sent during its own throughput tests, those it could not
-- measure, and those that the plan asked for up to the last whole hour and of which there is nothing; null without a
-- plan, and in the hour that runs.
WITH pooled AS (
    SELECT
        ping.at,
        SUM(bursts) AS measured,
        SUM(bursts_during_test) AS during_test,
        SUM(bursts_not_measured) AS not_measured
    FROM reporting.ping
    INNER JOIN reporting.path USING (path_id)
    WHERE tier = reporting.pooled_tier($__timeFrom(), $__timeTo())
        AND at >= reporting.start_of(reporting.pooled_tier($__timeFrom(), $__timeTo()), $__timeFrom())
        AND at < $__timeTo()::timestamptz
        AND source = ${site:sqlstring}
    GROUP BY ping.at
),
due AS (
    SELECT
        at,
        GREATEST(0, SUM(
            bursts_planned - bursts_measured - bursts_not_measured
        )) AS not_reported
    FROM reporting.site_coverage(
        reporting.pooled_tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo(), now()
    )
    WHERE site = ${site:sqlstring}
    GROUP BY at
    HAVING SUM(bursts_planned) > 0
)
SELECT
    reporting.bar_at(
        step.at, reporting.pooled_tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo()
    ) AS "time",
    measured::float8 AS "Measured",
    during_test::float8 AS "During throughput test",
    not_measured::float8 AS "Not measured",
    not_reported AS "Not reported"
FROM reporting.steps(reporting.pooled_tier($__timeFrom(), $__timeTo()), $__timeFrom(), $__timeTo()) AS step
LEFT JOIN pooled ON pooled.at = step.at
LEFT JOIN due ON due.at = step.at
WHERE EXISTS (SELECT FROM pooled) OR EXISTS (SELECT FROM due)
ORDER BY step.at

-- One row per UTC day of the period and rule: incidents that opened, zero on days without; no row for a rule that opened
-- none in the whole period.
SELECT
    reporting.bar_at(step.at, 'day', $__timeFrom(), $__timeTo()) AS "time",
    opened.rule AS "metric",
    COUNT(incident.incident_id)::float8 AS "Incidents"
FROM reporting.steps('day', $__timeFrom(), $__timeTo()) AS step
CROSS JOIN (
    SELECT DISTINCT rule
    FROM reporting.incident
    WHERE opened_at >= reporting.start_of('day', $__timeFrom()) AND opened_at < $__timeTo()::timestamptz
) AS opened
LEFT JOIN reporting.incident
    ON incident.rule = opened.rule AND incident.opened_at >= step.at AND incident.opened_at < step.ends_at
GROUP BY step.at, opened.rule
ORDER BY step.at, opened.rule

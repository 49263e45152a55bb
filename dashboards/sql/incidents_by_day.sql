-- One row per UTC day of the period and rule: incidents that opened. A day without any has zero, for all rules
-- together.
SELECT
    step.at AS "time",
    COALESCE(incident.rule, 'none') AS "metric",
    COUNT(incident.incident_id)::float8 AS "Incidents"
FROM reporting.steps('day', $__timeFrom(), $__timeTo()) AS step
LEFT JOIN reporting.incident ON incident.opened_at >= step.at AND incident.opened_at < step.ends_at
GROUP BY step.at, incident.rule
ORDER BY step.at, incident.rule

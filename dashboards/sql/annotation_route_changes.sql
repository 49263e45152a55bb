-- Route changes of the chosen path and of its reverse path, by their traces: each at the first trace on the new route.
-- Several flows that change together are a single change.
SELECT
    change.at AS "time",
    CASE WHEN change.path_id = NULLIF(${path:sqlstring}, '')::integer THEN 'Route' ELSE 'Reverse route' END
    || ' changed from hop ' || MIN(change.first_ttl) || ' on: '
    || CASE WHEN MIN(change.hops_before) = MIN(change.hops_after) THEN MIN(change.hops_after) || ' hops'
        ELSE MIN(change.hops_before) || ' → ' || MIN(change.hops_after) || ' hops' END AS "text",
    'route' AS "tags"
FROM reporting.route_change AS change
WHERE $__timeFilter(change.at)
    AND change.path_id IN (
        NULLIF(${path:sqlstring}, '')::integer, reporting.reverse_of(NULLIF(${path:sqlstring}, '')::integer)
    )
GROUP BY change.path_id, change.at
ORDER BY change.at

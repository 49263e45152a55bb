"""Traces, routes and their changes for Grafana, in the schema `reporting`. As for all its views, without addresses."""

from django.db import migrations

VIEWS = {
    "trace": """
        SELECT
            path_id, measured_at, test, outcome, reason, protocol, nullif(flow, -1) AS flow, reached,
            cardinality(sent) AS hops, during_test, detail
        FROM trace
    """,
    # `route` is its number among those of the path; `until` is null for the present route.
    "route_period": """
        SELECT
            period.path_id, period.protocol, nullif(period.flow, -1) AS flow, period.since, period.last_at,
            period.until, route.number AS route, cardinality(route.hops) AS hops,
            route.reached_at IS NOT NULL AS reached
        FROM path_route AS period
        INNER JOIN route ON route.id = period.route_id
    """,
    # A change is between `last_before_at` and `at`. `first_ttl` is that of the first hop that differs; a silent hop is
    # unknown and no difference.
    "route_change": """
        SELECT
            later.path_id, later.protocol, nullif(later.flow, -1) AS flow, earlier.last_at AS last_before_at,
            later.since AS at, before.number AS route_before, after.number AS route_after,
            cardinality(before.hops) AS hops_before, cardinality(after.hops) AS hops_after, least(
                (
                    SELECT min(ttl)
                    FROM generate_subscripts(before.hops, 1) AS ttl
                    WHERE before.hops[ttl] <> after.hops[ttl]
                ),
                least(cardinality(before.hops), cardinality(after.hops)) + 1
            ) AS first_ttl
        FROM path_route AS later
        INNER JOIN path_route AS earlier
            ON earlier.path_id = later.path_id AND earlier.protocol = later.protocol AND earlier.flow = later.flow
            AND earlier.until = later.since
        INNER JOIN route AS before ON before.id = earlier.route_id
        INNER JOIN route AS after ON after.id = later.route_id
    """,
}

CREATE = [f"CREATE VIEW reporting.{name} AS {text}" for name, text in VIEWS.items()]
DROP = [f"DROP VIEW reporting.{name}" for name in VIEWS]


class Migration(migrations.Migration):
    dependencies = [("archive", "0010_incident_period")]

    operations = [migrations.RunSQL(CREATE, DROP)]

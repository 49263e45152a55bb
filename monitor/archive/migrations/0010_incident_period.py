"""For Grafana: the onset and the end of incidents, as pages and reports have them."""

from importlib import import_module

from django.db import migrations

BEFORE = import_module("monitor.archive.migrations.0007_incident_title").INCIDENT

BEGAN = """coalesce(
            began_at,
            (SELECT min(since) FROM incident_path WHERE incident_path.incident_id = incident.id),
            opened_at
        )"""
# New columns of a view must be the last. Of a resolved incident only: `greatest` and `least` skip nulls.
INCIDENT = BEFORE.replace(
    " AS title",
    f""" AS title,
        {BEGAN} AS began_at,
        CASE WHEN closed_at IS NOT NULL THEN greatest(least(ended_at, closed_at), {BEGAN}) END AS ended_at""",
)

# A view cannot lose a column.
DROP = [
    "DROP VIEW reporting.incident",
    f"CREATE VIEW reporting.incident AS {BEFORE}",
]


class Migration(migrations.Migration):
    dependencies = [
        ("archive", "0009_traces"),
        ("alerts", "0007_incident_end"),
    ]

    operations = [migrations.RunSQL(f"CREATE OR REPLACE VIEW reporting.incident AS {INCIDENT}", DROP)]

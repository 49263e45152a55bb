"""For Grafana: incidents with their title as it is now, where the summary is of their detection."""

from importlib import import_module

from django.db import migrations

BEFORE = import_module("monitor.archive.migrations.0002_reporting").REPORTING_VIEWS["incident"]

# A new column of a view must be the last.
INCIDENT = BEFORE.replace(
    "summary, closing, correction, reopenings",
    "summary, closing, correction, reopenings, coalesce(nullif(title, ''), summary) AS title",
)

# A view cannot lose a column.
DROP = [
    "DROP VIEW reporting.incident",
    f"CREATE VIEW reporting.incident AS {BEFORE}",
]


class Migration(migrations.Migration):
    dependencies = [
        ("archive", "0006_coverage_by_plan"),
        ("alerts", "0004_incident_title"),
    ]

    operations = [migrations.RunSQL(f"CREATE OR REPLACE VIEW reporting.incident AS {INCIDENT}", DROP)]

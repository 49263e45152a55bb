"""The use of interfaces for Grafana, in the schema `reporting`."""

from django.db import migrations

CREATE = """
    CREATE VIEW reporting.interface AS
    SELECT
        path_id, measured_at, test, outcome, router, interface, alias, speed_bps, interval_s, in_bps, out_bps,
        in_errors, out_errors, in_drops, out_drops, during_test, detail
    FROM interface_result;
    CREATE VIEW reporting.interface_week AS
    SELECT path_id, test, week, five_minutes, in_p95_bps, out_p95_bps, speed_bps
    FROM interface_week
    WHERE five_minutes IS NOT NULL
"""
DROP = "DROP VIEW reporting.interface_week; DROP VIEW reporting.interface"


class Migration(migrations.Migration):
    dependencies = [("archive", "0030_interfaces")]

    operations = [migrations.RunSQL(CREATE, DROP)]

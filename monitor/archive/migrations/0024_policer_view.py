"""Policer tests for Grafana, in the schema `reporting`."""

from django.db import migrations

CREATE = """
    CREATE VIEW reporting.policer AS
    SELECT
        path_id, measured_at, test, outcome, verdict, sustained_bps, sustained_low_bps, sustained_high_bps, burst_bytes,
        burst_low_bytes, burst_high_bytes, peak_bps, packet_bytes, sent, received, delay_rise_ms, sentence, detail
    FROM policer_result
"""
DROP = "DROP VIEW reporting.policer"


class Migration(migrations.Migration):
    dependencies = [("archive", "0023_policer_result")]

    operations = [migrations.RunSQL(CREATE, DROP)]

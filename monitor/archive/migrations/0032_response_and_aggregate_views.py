"""Request-response runs and aggregate tests for Grafana, in the schema `reporting`."""

from django.db import migrations

CREATE = """
    CREATE VIEW reporting.request_response AS
    SELECT
        path_id, measured_at, test, outcome, request_bytes, response_bytes, transactions, errors, minimum_ms, median_ms,
        p95_ms, p99_ms, maximum_ms, transactions_per_s, payload_bytes_per_s, connect_ms, first_ms, after_idle_ms,
        retransmits, far_retransmits, during_test, detail
    FROM request_response;
    CREATE VIEW reporting.aggregate AS
    SELECT
        slot_id, test, shape, starts_at, ends_at, state, is_final, members, measured, sum_bps, partial_sum_bps,
        fairness, common_s, start_spread_s
    FROM aggregate_run
"""
DROP = "DROP VIEW reporting.aggregate; DROP VIEW reporting.request_response"


class Migration(migrations.Migration):
    dependencies = [("archive", "0031_interface_views")]

    operations = [migrations.RunSQL(CREATE, DROP)]

"""Coverage counts every measured burst, and plans nothing before an agent's first report.

A burst with packets under load is measured: these packets have figures of their own. `agent_account.since` becomes the
beginning of the first cycle that the agent reported, and the plan of a site that reported begins then.
"""

from importlib import import_module

from django.db import migrations

RESULTS = import_module("monitor.archive.migrations.0002_reporting")
LOADED = import_module("monitor.archive.migrations.0003_packets_under_load")
WHOLE_HOURS = import_module("monitor.archive.migrations.0005_coverage_and_bursts")
SITES = import_module("monitor.archive.migrations.0006_coverage_by_plan")

# The number of measured bursts of a summary. Numbers of bursts come as integers, and sums of them as others.
MEASURED = "bursts_measured(bursts double precision, bursts_during_test double precision)"
MEASURED_TEXT = """
    RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT bursts + bursts_during_test $$
"""

PLAN = """
    SELECT
        measurement.path_id, test.name AS test, test.kind, period.every_s, period.packet_bytes,
        greatest(period.started_at, account.since) AS started_at, period.ended_at
    FROM measurement_period AS period
    INNER JOIN measurement ON measurement.id = period.measurement_id
    INNER JOIN test ON test.id = measurement.test_id
    INNER JOIN path ON path.id = measurement.path_id
    INNER JOIN host ON host.id = path.source_id
    LEFT JOIN agent_account AS account ON account.site_id = host.site_id
"""

METRICS = LOADED.METRICS.replace(
    "(bursts - coalesce(bursts_excluded, 0))::double precision / bursts_planned",
    "reporting.bursts_measured(bursts, bursts_during_test) / bursts_planned",
)
BURSTS = next(name for name in WHOLE_HOURS.FUNCTIONS if name.startswith("bursts_in_whole_hours"))
BURSTS_TEXT = WHOLE_HOURS.FUNCTIONS[BURSTS].replace(
    "ping.bursts_counted, ping.bursts - ping.bursts_counted + ping.bursts_during_test,",
    "reporting.bursts_measured(ping.bursts, ping.bursts_during_test), ping.bursts_during_test::double precision,",
)
SITES_TEXT = (
    SITES.FUNCTIONS[SITES.SITE_COVERAGE]
    .replace(
        "sum(ping.bursts_counted) AS bursts_measured",
        "sum(reporting.bursts_measured(ping.bursts, ping.bursts_during_test)) AS bursts_measured",
    )
    .replace(
        "sum(ping.bursts - ping.bursts_counted + ping.bursts_during_test) AS bursts_during_test",
        "sum(ping.bursts_during_test)::double precision AS bursts_during_test",
    )
)

# Cycles that were reported before the first account, as from then on.
EARLIER_ACCOUNTS = """
    UPDATE agent_account AS account
    SET since = least(account.since, reported.since)
    FROM (
        SELECT host.site_id, min(to_timestamp(lower(cycle_day.cycles) * cycle_day.every_s)) AS since
        FROM agent_account AS first_account
        INNER JOIN host ON host.site_id = first_account.site_id
        INNER JOIN path ON path.source_id = host.id
        INNER JOIN cycle_day ON
            cycle_day.path_id = path.id AND cycle_day.day <= (first_account.since AT TIME ZONE 'UTC')::date
        GROUP BY host.site_id
    ) AS reported
    WHERE reported.site_id = account.site_id
"""

APPLY = [
    f"CREATE FUNCTION reporting.{MEASURED} {MEASURED_TEXT}",
    EARLIER_ACCOUNTS,
    f"CREATE OR REPLACE VIEW reporting.plan AS {PLAN}",
    *(METRICS.format(tier=tier) for tier in RESULTS.TIERS),
    f"CREATE OR REPLACE FUNCTION reporting.{BURSTS} {BURSTS_TEXT}",
    f"CREATE OR REPLACE FUNCTION reporting.{SITES.SITE_COVERAGE} {SITES_TEXT}",
]
REVERT = [
    f"CREATE OR REPLACE FUNCTION reporting.{SITES.SITE_COVERAGE} {SITES.FUNCTIONS[SITES.SITE_COVERAGE]}",
    f"CREATE OR REPLACE FUNCTION reporting.{BURSTS} {WHOLE_HOURS.FUNCTIONS[BURSTS]}",
    *(LOADED.METRICS.format(tier=tier) for tier in RESULTS.TIERS),
    f"CREATE OR REPLACE VIEW reporting.plan AS {RESULTS.REPORTING_VIEWS['plan']}",
    f"DROP FUNCTION reporting.{MEASURED}",
]


class Migration(migrations.Migration):
    dependencies = [("archive", "0007_incident_title"), ("mesh", "0001_mesh")]

    operations = [migrations.RunSQL(APPLY, REVERT)]

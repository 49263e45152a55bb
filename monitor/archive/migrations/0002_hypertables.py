"""Hypertables where the server has TimescaleDB; plain tables, with the same rows and indexes, where it has not.

Only functions of TimescaleDB's Apache edition. A server that has the extension's files but does not preload its
library cannot create it; it counts as one without.
"""

from django.db import migrations

CHUNK_INTERVALS = {
    ("burst", "measured_at"): "1 day",
    ("throughput_test", "measured_at"): "30 days",
    ("burst_hour", "hour"): "30 days",
}
USABLE = """
    SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'timescaledb')
        OR (EXISTS (SELECT FROM pg_available_extensions WHERE name = 'timescaledb')
            AND EXISTS (SELECT FROM pg_settings WHERE name = 'shared_preload_libraries'
                        AND 'timescaledb' = ANY(string_to_array(replace(setting, ' ', ''), ','))))
"""
MAKE_HYPERTABLE = "SELECT create_hypertable(%s, by_range(%s, %s::interval), create_default_indexes => FALSE)"


def make_hypertables(apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(USABLE)
        (usable,) = cursor.fetchone()
        if not usable:
            return
        cursor.execute("CREATE EXTENSION IF NOT EXISTS timescaledb")
        for (table, column), interval in CHUNK_INTERVALS.items():
            cursor.execute(MAKE_HYPERTABLE, [table, column, interval])


class Migration(migrations.Migration):
    dependencies = [("archive", "0001_initial")]

    operations = [migrations.RunPython(make_hypertables, migrations.RunPython.noop)]

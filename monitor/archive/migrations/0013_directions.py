"""Loss and delay of paths by direction; `direction_burst` is a hypertable where the server has TimescaleDB."""

from importlib import import_module

from django.db import migrations, models

TABLES = import_module("monitor.archive.migrations.0001_tables")


def make_hypertable(apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(TABLES.USABLE)
        (usable,) = cursor.fetchone()
        if usable:
            cursor.execute(TABLES.MAKE_HYPERTABLE, ["direction_burst", "measured_at", "1 day"])


class Migration(migrations.Migration):
    dependencies = [
        ("archive", "0012_burst_flow"),
    ]

    operations = [
        migrations.CreateModel(
            name="DirectionMonth",
            fields=[
                ("path_id", models.IntegerField()),
                ("bursts", models.IntegerField()),
                ("bursts_counted", models.IntegerField(help_text="with counters of the reflector")),
                ("bursts_delayed", models.IntegerField(help_text="with timestamps of the reflector")),
                ("sent", models.BigIntegerField()),
                ("received", models.BigIntegerField()),
                ("counted", models.BigIntegerField()),
                ("forward_lost", models.BigIntegerField()),
                ("forward_lossy", models.IntegerField()),
                ("forward_duplicates", models.BigIntegerField(null=True)),
                ("forward_reordered", models.BigIntegerField(null=True)),
                ("forward_min_ms", models.FloatField(null=True)),
                ("forward_avg_ms", models.FloatField(null=True)),
                ("forward_variation_ms", models.FloatField(null=True)),
                ("forward_ipdv_ms", models.FloatField(null=True)),
                ("reverse_lost", models.BigIntegerField()),
                ("reverse_lossy", models.IntegerField()),
                ("reverse_duplicates", models.BigIntegerField(null=True)),
                ("reverse_reordered", models.BigIntegerField(null=True)),
                ("reverse_min_ms", models.FloatField(null=True)),
                ("reverse_avg_ms", models.FloatField(null=True)),
                ("reverse_variation_ms", models.FloatField(null=True)),
                ("reverse_ipdv_ms", models.FloatField(null=True)),
                ("offset_lo_ms", models.FloatField(null=True)),
                ("offset_hi_ms", models.FloatField(null=True)),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "path_id", "month", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("month", models.DateTimeField()),
            ],
            options={
                "db_table": "direction_month",
            },
        ),
        migrations.CreateModel(
            name="DirectionYear",
            fields=[
                ("path_id", models.IntegerField()),
                ("bursts", models.IntegerField()),
                ("bursts_counted", models.IntegerField(help_text="with counters of the reflector")),
                ("bursts_delayed", models.IntegerField(help_text="with timestamps of the reflector")),
                ("sent", models.BigIntegerField()),
                ("received", models.BigIntegerField()),
                ("counted", models.BigIntegerField()),
                ("forward_lost", models.BigIntegerField()),
                ("forward_lossy", models.IntegerField()),
                ("forward_duplicates", models.BigIntegerField(null=True)),
                ("forward_reordered", models.BigIntegerField(null=True)),
                ("forward_min_ms", models.FloatField(null=True)),
                ("forward_avg_ms", models.FloatField(null=True)),
                ("forward_variation_ms", models.FloatField(null=True)),
                ("forward_ipdv_ms", models.FloatField(null=True)),
                ("reverse_lost", models.BigIntegerField()),
                ("reverse_lossy", models.IntegerField()),
                ("reverse_duplicates", models.BigIntegerField(null=True)),
                ("reverse_reordered", models.BigIntegerField(null=True)),
                ("reverse_min_ms", models.FloatField(null=True)),
                ("reverse_avg_ms", models.FloatField(null=True)),
                ("reverse_variation_ms", models.FloatField(null=True)),
                ("reverse_ipdv_ms", models.FloatField(null=True)),
                ("offset_lo_ms", models.FloatField(null=True)),
                ("offset_hi_ms", models.FloatField(null=True)),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "path_id", "year", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("year", models.DateTimeField()),
            ],
            options={
                "db_table": "direction_year",
            },
        ),
        migrations.CreateModel(
            name="DirectionBurst",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "path_id",
                        "measured_at",
                        "packet_bytes",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("path_id", models.IntegerField()),
                ("measured_at", models.DateTimeField()),
                ("packet_bytes", models.IntegerField(help_text="of UDP payload")),
                ("test", models.TextField()),
                ("outcome", models.TextField()),
                ("during_test", models.BooleanField()),
                ("sent", models.SmallIntegerField()),
                ("received", models.SmallIntegerField()),
                ("undecided", models.SmallIntegerField(help_text="lost packets whose direction is not known")),
                (
                    "is_stateful",
                    models.BooleanField(help_text="whether the reflector counts; null if undetermined", null=True),
                ),
                ("dscp", models.SmallIntegerField()),
                ("forward_lost", models.SmallIntegerField(null=True)),
                ("forward_duplicates", models.SmallIntegerField(null=True)),
                ("forward_reordered", models.SmallIntegerField(null=True)),
                ("forward_ttl", models.SmallIntegerField(null=True)),
                ("forward_min_ms", models.FloatField(null=True)),
                ("forward_median_ms", models.FloatField(null=True)),
                ("forward_p95_ms", models.FloatField(null=True)),
                ("forward_max_ms", models.FloatField(null=True)),
                ("forward_ipdv_ms", models.FloatField(null=True)),
                ("reverse_lost", models.SmallIntegerField(null=True)),
                ("reverse_duplicates", models.SmallIntegerField(null=True)),
                ("reverse_reordered", models.SmallIntegerField(null=True)),
                ("reverse_ttl", models.SmallIntegerField(null=True)),
                ("reverse_min_ms", models.FloatField(null=True)),
                ("reverse_median_ms", models.FloatField(null=True)),
                ("reverse_p95_ms", models.FloatField(null=True)),
                ("reverse_max_ms", models.FloatField(null=True)),
                ("reverse_ipdv_ms", models.FloatField(null=True)),
                ("offset_lo_ms", models.FloatField(null=True)),
                ("offset_hi_ms", models.FloatField(null=True)),
                (
                    "are_clocks_synchronised",
                    models.BooleanField(help_text="both, as they claim; null if not known", null=True),
                ),
                ("stamp", models.TextField(null=True)),
                ("address", models.GenericIPAddressField(null=True)),
                ("detail", models.TextField(null=True)),
            ],
            options={
                "db_table": "direction_burst",
                "indexes": [models.Index(fields=["measured_at"], name="direction_by_time")],
            },
        ),
        migrations.CreateModel(
            name="DirectionDay",
            fields=[
                ("path_id", models.IntegerField()),
                ("bursts", models.IntegerField()),
                ("bursts_counted", models.IntegerField(help_text="with counters of the reflector")),
                ("bursts_delayed", models.IntegerField(help_text="with timestamps of the reflector")),
                ("sent", models.BigIntegerField()),
                ("received", models.BigIntegerField()),
                ("counted", models.BigIntegerField()),
                ("forward_lost", models.BigIntegerField()),
                ("forward_lossy", models.IntegerField()),
                ("forward_duplicates", models.BigIntegerField(null=True)),
                ("forward_reordered", models.BigIntegerField(null=True)),
                ("forward_min_ms", models.FloatField(null=True)),
                ("forward_avg_ms", models.FloatField(null=True)),
                ("forward_variation_ms", models.FloatField(null=True)),
                ("forward_ipdv_ms", models.FloatField(null=True)),
                ("reverse_lost", models.BigIntegerField()),
                ("reverse_lossy", models.IntegerField()),
                ("reverse_duplicates", models.BigIntegerField(null=True)),
                ("reverse_reordered", models.BigIntegerField(null=True)),
                ("reverse_min_ms", models.FloatField(null=True)),
                ("reverse_avg_ms", models.FloatField(null=True)),
                ("reverse_variation_ms", models.FloatField(null=True)),
                ("reverse_ipdv_ms", models.FloatField(null=True)),
                ("offset_lo_ms", models.FloatField(null=True)),
                ("offset_hi_ms", models.FloatField(null=True)),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "path_id", "day", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("day", models.DateTimeField()),
            ],
            options={
                "db_table": "direction_day",
            },
        ),
        migrations.CreateModel(
            name="DirectionHour",
            fields=[
                ("path_id", models.IntegerField()),
                ("bursts", models.IntegerField()),
                ("bursts_counted", models.IntegerField(help_text="with counters of the reflector")),
                ("bursts_delayed", models.IntegerField(help_text="with timestamps of the reflector")),
                ("sent", models.BigIntegerField()),
                ("received", models.BigIntegerField()),
                ("counted", models.BigIntegerField()),
                ("forward_lost", models.BigIntegerField()),
                ("forward_lossy", models.IntegerField()),
                ("forward_duplicates", models.BigIntegerField(null=True)),
                ("forward_reordered", models.BigIntegerField(null=True)),
                ("forward_min_ms", models.FloatField(null=True)),
                ("forward_avg_ms", models.FloatField(null=True)),
                ("forward_variation_ms", models.FloatField(null=True)),
                ("forward_ipdv_ms", models.FloatField(null=True)),
                ("reverse_lost", models.BigIntegerField()),
                ("reverse_lossy", models.IntegerField()),
                ("reverse_duplicates", models.BigIntegerField(null=True)),
                ("reverse_reordered", models.BigIntegerField(null=True)),
                ("reverse_min_ms", models.FloatField(null=True)),
                ("reverse_avg_ms", models.FloatField(null=True)),
                ("reverse_variation_ms", models.FloatField(null=True)),
                ("reverse_ipdv_ms", models.FloatField(null=True)),
                ("offset_lo_ms", models.FloatField(null=True)),
                ("offset_hi_ms", models.FloatField(null=True)),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "path_id", "hour", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hour", models.DateTimeField()),
            ],
            options={
                "db_table": "direction_hour",
            },
        ),
        migrations.RunPython(make_hypertable, migrations.RunPython.noop),
    ]

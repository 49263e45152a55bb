from django.db import migrations, models

MAKE_HYPERTABLE = """
    SELECT create_hypertable('capacity_result', by_range('measured_at', interval '30 days'),
                             create_default_indexes => FALSE)
"""


def make_hypertable(apps, schema_editor):
    """As the other tables of migration 0002, which created the extension wherever it can be used."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'timescaledb')")
        (usable,) = cursor.fetchone()
        if usable:
            cursor.execute(MAKE_HYPERTABLE)


class Migration(migrations.Migration):
    dependencies = [
        ("archive", "0003_what_a_burst_says"),
    ]

    operations = [
        migrations.CreateModel(
            name="CapacityResult",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "path_id", "measured_at", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("path_id", models.IntegerField()),
                ("measured_at", models.DateTimeField()),
                ("test", models.TextField()),
                ("outcome", models.TextField()),
                ("verdict", models.TextField(null=True)),
                ("capacity_bps", models.FloatField(null=True)),
                ("capacity_low_bps", models.FloatField(null=True)),
                ("capacity_high_bps", models.FloatField(null=True)),
                ("packet_bytes", models.IntegerField(help_text="of ICMP payload", null=True)),
                ("sent", models.SmallIntegerField()),
                ("received", models.SmallIntegerField()),
                ("method", models.TextField(null=True)),
                ("during_test", models.BooleanField()),
                ("address", models.GenericIPAddressField(null=True)),
                ("detail", models.TextField(null=True)),
            ],
            options={
                "db_table": "capacity_result",
                "indexes": [models.Index(fields=["measured_at"], name="capacity_by_time")],
            },
        ),
        migrations.RunPython(make_hypertable, migrations.RunPython.noop),
    ]

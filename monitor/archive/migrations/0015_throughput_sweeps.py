"""Sweeps of throughput tests over a grid of settings. New tables, small."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("archive", "0014_disk_to_disk")]

    operations = [
        migrations.CreateModel(
            name="ThroughputSweep",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("path_id", models.IntegerField()),
                ("name", models.TextField()),
                ("asked_at", models.DateTimeField()),
                ("asked_by", models.TextField()),
            ],
            options={"db_table": "throughput_sweep"},
        ),
        migrations.CreateModel(
            name="SweepCell",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("place", models.SmallIntegerField(help_text="in the order of running")),
                ("parameters", models.JSONField(help_text="as monitor.mesh.schedule.on_demand.Settings")),
                ("slot_id", models.BigIntegerField(null=True)),
                ("outcome", models.TextField(null=True)),
                ("detail", models.TextField(null=True)),
                ("measured_at", models.DateTimeField(null=True)),
                ("throughput_bps", models.FloatField(null=True)),
                ("idle_rtt_ms", models.FloatField(null=True)),
                ("verdict", models.TextField(null=True)),
                ("sentence", models.TextField(null=True)),
                (
                    "sweep",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="cells",
                        to="archive.throughputsweep",
                    ),
                ),
            ],
            options={
                "db_table": "throughput_sweep_cell",
                "constraints": [models.UniqueConstraint(fields=("sweep", "place"), name="one_cell_a_place")],
            },
        ),
    ]

"""Uplinks that hosts share, slots that were asked for, what the far end of a slot said, and budgets."""

import django.contrib.postgres.constraints
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mesh", "0004_service_levels"),
    ]

    operations = [
        migrations.CreateModel(
            name="SlotRequest",
            fields=[
                (
                    "slot",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="request",
                        serialize=False,
                        to="mesh.slot",
                    ),
                ),
                ("asked_at", models.DateTimeField()),
                ("asked_by", models.TextField()),
                ("parameters", models.JSONField()),
            ],
            options={
                "db_table": "slot_request",
            },
        ),
        migrations.AddField(
            model_name="mesh",
            name="budgets",
            field=models.JSONField(default=dict, help_text="The [budget] tables, likewise."),
        ),
        migrations.AddField(
            model_name="test",
            name="priority",
            field=models.SmallIntegerField(db_default=0, help_text="of throughput tests: the greater gets the time"),
        ),
        migrations.AddField(
            model_name="test",
            name="slip_s",
            field=models.PositiveIntegerField(
                help_text="how late its slots may begin; null: within the period", null=True
            ),
        ),
        migrations.AddField(
            model_name="slot",
            name="carried_bytes",
            field=models.BigIntegerField(help_text="what the test sent; null where it has no figures", null=True),
        ),
        migrations.AddField(
            model_name="slot",
            name="served",
            field=models.JSONField(
                help_text="as probes.throughput.spec.ServerReport; null where nothing was reported", null=True
            ),
        ),
        migrations.CreateModel(
            name="Uplink",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.TextField()),
                (
                    "retired_at",
                    models.DateTimeField(help_text="When it left mesh.toml; null while it is in use.", null=True),
                ),
                (
                    "site",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="uplinks", to="mesh.site"
                    ),
                ),
            ],
            options={
                "db_table": "uplink",
            },
        ),
        migrations.CreateModel(
            name="SlotUplink",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                (
                    "slot",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="uplinks", to="mesh.slot"
                    ),
                ),
                (
                    "uplink",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="mesh.uplink"),
                ),
            ],
            options={
                "db_table": "slot_uplink",
            },
        ),
        migrations.AddField(
            model_name="host",
            name="uplink",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="hosts", to="mesh.uplink"
            ),
        ),
        migrations.AddConstraint(
            model_name="uplink",
            constraint=models.UniqueConstraint(fields=("site", "name"), name="one_uplink_of_a_name_per_site"),
        ),
        migrations.AddConstraint(
            model_name="slotuplink",
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(
                expressions=[
                    (models.Func("uplink", "uplink", models.Value("[]"), function="int8range"), "&&"),
                    (models.Func("starts_at", "ends_at", function="tstzrange"), "&&"),
                ],
                name="one_slot_per_uplink_at_a_time",
            ),
        ),
    ]

import django.db.models.deletion
from django.db import migrations, models

import monitor.archive.fields


class Migration(migrations.Migration):
    dependencies = [
        ("archive", "0007_what_a_transfer_says"),
        ("mesh", "0003_capacity_tests"),
    ]

    operations = [
        migrations.CreateModel(
            name="AgentAccount",
            fields=[
                (
                    "site",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="mesh.site",
                    ),
                ),
                ("since", models.DateTimeField()),
                ("until", models.DateTimeField()),
            ],
            options={
                "db_table": "agent_account",
            },
        ),
        migrations.CreateModel(
            name="CycleDay",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "path_id",
                        "test",
                        "every_s",
                        "day",
                        "outcome",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("path_id", models.IntegerField()),
                ("test", models.TextField()),
                ("every_s", models.IntegerField()),
                ("day", models.DateField()),
                ("outcome", models.TextField()),
                ("cycles", monitor.archive.fields.MultirangeField(help_text="of numbers of cycles")),
            ],
            options={
                "db_table": "cycle_day",
            },
        ),
        migrations.CreateModel(
            name="AgentGap",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("test", models.TextField(blank=True, help_text="empty for all")),
                ("every_s", models.IntegerField(default=0, help_text="0 for all")),
                ("reason", models.TextField()),
                ("since", models.DateTimeField()),
                ("until", models.DateTimeField()),
                (
                    "site",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="mesh.site"),
                ),
            ],
            options={
                "db_table": "agent_gap",
                "indexes": [models.Index(fields=["site", "until"], name="gap_by_site_and_end")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("site", "test", "every_s", "reason", "since", "until"), name="gap_stored_once"
                    )
                ],
            },
        ),
    ]

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("mesh", "0001_squashed_0014_tables"),
    ]

    operations = [
        migrations.CreateModel(
            name="AgentHealth",
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
                ("accepted_at", models.DateTimeField()),
                ("agent_version", models.TextField()),
                (
                    "queued",
                    models.IntegerField(help_text="results left in the agent's spool"),
                ),
                (
                    "dropped",
                    models.IntegerField(help_text="results dropped by the agent's spool, total"),
                ),
                (
                    "health",
                    models.JSONField(
                        help_text="as probes.site.health.Health; null if not reported",
                        null=True,
                    ),
                ),
                (
                    "drops_past",
                    models.JSONField(
                        db_default=[],
                        default=list,
                        help_text="last hour of [seconds since the epoch, packets dropped by its interfaces]",
                    ),
                ),
            ],
            options={
                "db_table": "agent_health",
            },
        ),
        migrations.CreateModel(
            name="AgentToken",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True,
                        primary_key=True,
                        serialize=False,
                        verbose_name="ID",
                    ),
                ),
                ("digest", models.TextField(unique=True)),
                ("created_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(null=True)),
                ("instance", models.TextField(null=True)),
                ("instance_start", models.BigIntegerField(null=True)),
                (
                    "held_since",
                    models.DateTimeField(help_text="time since which that start has held it", null=True),
                ),
                ("refused_at", models.DateTimeField(null=True)),
                (
                    "refused_from",
                    models.TextField(help_text="its address, null if unknown", null=True),
                ),
                (
                    "site",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="agent_tokens",
                        to="mesh.site",
                    ),
                ),
            ],
            options={
                "db_table": "agent_token",
            },
        ),
        migrations.CreateModel(
            name="EnrolmentCode",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True,
                        primary_key=True,
                        serialize=False,
                        verbose_name="ID",
                    ),
                ),
                ("digest", models.TextField(unique=True)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(null=True)),
                (
                    "replaces_tokens",
                    models.BooleanField(help_text="enrolling with it revokes the site's earlier tokens"),
                ),
                (
                    "site",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="enrolment_codes",
                        to="mesh.site",
                    ),
                ),
            ],
            options={
                "db_table": "enrolment_code",
            },
        ),
        migrations.CreateModel(
            name="ClockOffPeriod",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True,
                        primary_key=True,
                        serialize=False,
                        verbose_name="ID",
                    ),
                ),
                ("since", models.DateTimeField()),
                ("until", models.DateTimeField()),
                ("offset_s", models.FloatField()),
                (
                    "site",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="mesh.site",
                    ),
                ),
            ],
            options={
                "db_table": "clock_off_period",
                "indexes": [models.Index(fields=["site", "until"], name="clock_off_by_site_and_end")],
            },
        ),
    ]

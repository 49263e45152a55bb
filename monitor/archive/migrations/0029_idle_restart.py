from django.db import migrations, models

from monitor.accounts import row_policies


class Migration(migrations.Migration):
    dependencies = [
        ("archive", "0028_capture_parts"),
    ]

    operations = [
        migrations.CreateModel(
            name="IdleRestartResult",
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
                ("slot_id", models.BigIntegerField(null=True)),
                ("outcome", models.TextField()),
                ("restarted", models.BooleanField(help_text="null where it cannot be told", null=True)),
                ("before_bps", models.FloatField(null=True)),
                ("is_steady", models.BooleanField(null=True)),
                ("cwnd_before", models.IntegerField(help_text="segments", null=True)),
                ("cwnd_after", models.IntegerField(help_text="segments", null=True)),
                ("timeout_s", models.FloatField(null=True)),
                ("rtt_ms", models.FloatField(null=True)),
                ("pause_s", models.FloatField(null=True)),
                ("duration_s", models.FloatField(null=True)),
                ("rise_s", models.FloatField(null=True)),
                ("back_s", models.FloatField(null=True)),
                (
                    "setting",
                    models.TextField(help_text="the sender's net.ipv4.tcp_slow_start_after_idle", null=True),
                ),
                ("sent_bytes", models.BigIntegerField(null=True)),
                ("sentence", models.TextField(null=True)),
                ("detail", models.TextField(null=True)),
            ],
            options={
                "db_table": "idle_restart",
                "indexes": [models.Index(fields=["measured_at"], name="idle_restart_by_time")],
            },
        ),
        row_policies.by_path("idle_restart"),
    ]

import django.db.models.deletion
from django.db import migrations, models

from monitor.accounts import row_policies


class Migration(migrations.Migration):
    initial = True

    dependencies = [("mesh", "0014_host_behind_nat"), ("accounts", "0004_read_policies")]

    operations = [
        migrations.CreateModel(
            name="PathTrack",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("signal", models.SmallIntegerField(help_text="track.Signal")),
                ("way", models.TextField(default="", help_text="forward or reverse by STAMP; empty for round trips")),
                ("packet_bytes", models.IntegerField(default=0, help_text="0 for packets of all sizes")),
                ("condition", models.SmallIntegerField(help_text="track.Condition")),
                (
                    "newest_at",
                    models.DateTimeField(help_text="The newest burst that counts; null before any.", null=True),
                ),
                (
                    "segments",
                    models.JSONField(help_text="State, begin with its 95% set, and the level of each, oldest first."),
                ),
                (
                    "outages",
                    models.JSONField(
                        default=list, help_text="Last reply before, and first reply after each of the newest."
                    ),
                ),
                (
                    "path",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="mesh.path",
                    ),
                ),
            ],
            options={
                "db_table": "path_track",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("path", "signal", "way", "packet_bytes"), name="track_once_per_path"
                    )
                ],
            },
        ),
        row_policies.by_path("path_track"),
    ]

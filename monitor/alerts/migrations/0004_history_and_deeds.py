import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("alerts", "0003_lifecycle_and_quiet"),
    ]

    operations = [
        migrations.CreateModel(
            name="IncidentTurn",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                (
                    "turn",
                    models.TextField(
                        choices=[
                            ("found", "Found"),
                            ("widened", "Widened"),
                            ("opened", "Opened"),
                            ("acknowledged", "Acknowledged"),
                            ("unacknowledged", "Unacknowledged"),
                            ("corrected", "Corrected"),
                            ("resolved", "Resolved"),
                            ("reopened", "Reopened"),
                        ]
                    ),
                ),
                ("note", models.TextField(blank=True, help_text="What was found, who it was, why it is over.")),
            ],
            options={
                "db_table": "incident_turn",
            },
        ),
        migrations.AddField(
            model_name="deed",
            name="comment",
            field=models.TextField(blank=True, db_default="", default=""),
        ),
        migrations.AddField(
            model_name="deed",
            name="key",
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name="quiet",
            name="revision",
            field=models.IntegerField(
                db_default=0, default=0, help_text="How often it was changed: a change names the one it saw."
            ),
        ),
        migrations.AddConstraint(
            model_name="deed",
            constraint=models.UniqueConstraint(fields=("who", "key"), name="deed_done_once"),
        ),
        migrations.AddField(
            model_name="incidentturn",
            name="incident",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="turns", to="alerts.incident"
            ),
        ),
        migrations.AddIndex(
            model_name="incidentturn",
            index=models.Index(fields=["incident", "at"], name="incident_turn_in_order"),
        ),
    ]

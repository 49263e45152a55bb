from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("alerts", "0004_incident_title"),
    ]

    operations = [
        migrations.AddField(
            model_name="incidentpath",
            name="ended_at",
            field=models.DateTimeField(help_text="End of the finding; null while it lasts, or if unknown.", null=True),
        ),
        migrations.AddField(
            model_name="incidentpath",
            name="closing",
            field=models.TextField(blank=True, db_default="", default="", help_text="Reason of its end; empty before."),
        ),
        migrations.AlterField(
            model_name="incidentturn",
            name="turn",
            field=models.TextField(
                choices=[
                    ("found", "Found"),
                    ("widened", "Widened"),
                    ("narrowed", "Narrowed"),
                    ("worsened", "Worsened"),
                    ("opened", "Opened"),
                    ("acknowledged", "Acknowledged"),
                    ("unacknowledged", "Unacknowledged"),
                    ("corrected", "Corrected"),
                    ("merged", "Merged"),
                    ("resolved", "Resolved"),
                    ("reopened", "Reopened"),
                ]
            ),
        ),
    ]

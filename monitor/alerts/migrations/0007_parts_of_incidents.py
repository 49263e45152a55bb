import django.db.models.deletion
from django.db import migrations, models

TURNS = [
    ("found", "Found"),
    ("widened", "Widened"),
    ("opened", "Opened"),
    ("acknowledged", "Acknowledged"),
    ("unacknowledged", "Unacknowledged"),
    ("corrected", "Corrected"),
    ("merged", "Merged"),
    ("resolved", "Resolved"),
    ("reopened", "Reopened"),
]


class Migration(migrations.Migration):
    dependencies = [("alerts", "0006_evidence_and_delivery")]

    operations = [
        migrations.AddField(
            model_name="incident",
            name="merged_into",
            field=models.ForeignKey(
                help_text="The incident that has had all of this one since it ended, since one cause explains both.",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="parts",
                to="alerts.incident",
            ),
        ),
        migrations.AlterField(model_name="incidentturn", name="turn", field=models.TextField(choices=TURNS)),
    ]

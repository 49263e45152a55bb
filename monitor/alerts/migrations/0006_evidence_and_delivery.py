import django.db.models.deletion
from django.db import migrations, models

SEVERITIES = [("notice", "Notice"), ("warning", "Warning"), ("critical", "Critical")]
STATES = [
    ("waiting", "waits to be sent"),
    ("sending", "is being sent"),
    ("sent", "was sent"),
    ("dead", "was given up"),
    ("dropped", "was dropped by hand"),
]
CHANGES = [("opened", "Opened"), ("reopened", "Reopened"), ("corrected", "Corrected"), ("closed", "Closed")]

OF_WHAT_WAS = """
UPDATE notification SET state = CASE WHEN sent_at IS NOT NULL THEN 'sent' ELSE 'dead' END
WHERE sent_at IS NOT NULL OR attempts >= 10
"""


class Migration(migrations.Migration):
    dependencies = [("alerts", "0005_history_of_what_was")]

    operations = [
        migrations.AddField(
            model_name="incident",
            name="severity",
            field=models.TextField(choices=SEVERITIES, db_default="warning", default="warning"),
        ),
        migrations.AddField(
            model_name="incident",
            name="shares",
            field=models.JSONField(
                db_default=[],
                default=list,
                help_text="What speaks for the cause and against others, as shares.Share.",
            ),
        ),
        migrations.AddField(
            model_name="incident",
            name="has_grown",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="Since people were told, so that others may want to know.",
            ),
        ),
        migrations.AddField(
            model_name="notification",
            name="state",
            field=models.TextField(choices=STATES, db_default="waiting", default="waiting"),
        ),
        migrations.AddField(
            model_name="notification",
            name="is_digest",
            field=models.BooleanField(db_default=False, default=False, help_text="With all else that is due then."),
        ),
        migrations.AddField(
            model_name="notification",
            name="claimed_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AlterField(
            model_name="notification",
            name="change",
            field=models.TextField(choices=CHANGES),
        ),
        migrations.CreateModel(
            name="IncidentEvidence",
            fields=[
                (
                    "incident",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="kept_evidence",
                        serialize=False,
                        to="alerts.incident",
                    ),
                ),
                ("version", models.SmallIntegerField()),
                ("gathered_at", models.DateTimeField()),
                ("facts", models.JSONField()),
            ],
            options={"db_table": "incident_evidence"},
        ),
        migrations.RunSQL(OF_WHAT_WAS, migrations.RunSQL.noop),
    ]

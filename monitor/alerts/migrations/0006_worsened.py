from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("alerts", "0005_finding_end"),
    ]

    operations = [
        migrations.AddField(
            model_name="incident",
            name="told_rule",
            field=models.TextField(
                blank=True,
                db_default="",
                default="",
                help_text="The gravest rule at the last notification; empty before.",
            ),
        ),
        migrations.AddField(
            model_name="notification",
            name="symptom",
            field=models.TextField(
                blank=True,
                db_default="",
                default="",
                help_text="The graver rule that joined, if the incident has worsened.",
            ),
        ),
        migrations.AlterField(
            model_name="notification",
            name="change",
            field=models.TextField(
                choices=[
                    ("opened", "Opened"),
                    ("reopened", "Reopened"),
                    ("worsened", "Worsened"),
                    ("corrected", "Corrected"),
                    ("closed", "Closed"),
                ]
            ),
        ),
        migrations.RemoveConstraint(
            model_name="notification",
            name="change_notified_once_per_channel",
        ),
        migrations.AddConstraint(
            model_name="notification",
            constraint=models.UniqueConstraint(
                fields=("incident", "change", "symptom", "reopening", "channel"),
                name="change_notified_once_per_channel",
            ),
        ),
    ]

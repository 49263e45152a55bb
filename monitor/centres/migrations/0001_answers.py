from django.db import migrations, models

from monitor.accounts import row_policies


class Migration(migrations.Migration):
    initial = True

    dependencies = [("accounts", "0002_squashed_0006_read_policies")]

    operations = [
        migrations.CreateModel(
            name="CentreAnswer",
            fields=[
                (
                    "name",
                    models.TextField(help_text="as in SOUNDINGS_OTHER_CENTRES", primary_key=True, serialize=False),
                ),
                ("url", models.TextField()),
                ("asked_at", models.DateTimeField(help_text="the last request")),
                ("problem", models.TextField(default="", help_text="why that was not answered; empty if it was")),
                (
                    "answered_at",
                    models.DateTimeField(help_text="when the summary was requested; null before the first", null=True),
                ),
                ("summary", models.JSONField(help_text="as `GET /api/v1/centre` answers", null=True)),
            ],
            options={"db_table": "centre_answer"},
        ),
        # Of whole centres: for no reader with limits.
        row_policies.policies({"centre_answer": "false"}),
    ]

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("alerts", "0014_raised_rtt")]

    operations = [
        migrations.AddField(
            model_name="incident",
            name="told_cause",
            field=models.TextField(
                blank=True, db_default="", default="", help_text="Its cause at the last notification; empty before."
            ),
        ),
    ]

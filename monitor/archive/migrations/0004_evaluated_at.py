"""The samples of the centre note when the alert rules were last evaluated, so that a report can name the pauses."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("archive", "0003_packets_under_load")]

    operations = [
        migrations.AddField(
            "centresample",
            "evaluated_at",
            models.DateTimeField(null=True, help_text="of the alert rules; null in samples of earlier releases"),
        ),
    ]

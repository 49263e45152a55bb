from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("alerts", "0010_annotation")]

    operations = [
        migrations.AddField(
            model_name="incident",
            name="worst_loss",
            field=models.JSONField(
                help_text="Packets of the worst loss of its paths together, as present.LostPackets; null before any.",
                null=True,
            ),
        ),
    ]

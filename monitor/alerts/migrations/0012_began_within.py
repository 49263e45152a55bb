from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("alerts", "0011_worst_loss")]

    operations = [
        migrations.AddField(
            model_name="incident",
            name="began_within_s",
            field=models.FloatField(help_text="Width of the 95% interval of began_at; null without one.", null=True),
        ),
    ]

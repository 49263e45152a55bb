from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("alerts", "0013_time_before_reopening")]

    operations = [
        migrations.AddField(
            model_name="judgedpath",
            name="raised_ms",
            field=models.FloatField(help_text="RTT of the newest bursts while it is above all before them.", null=True),
        ),
        migrations.AddField(
            model_name="judgedpath",
            name="before_ms",
            field=models.FloatField(help_text="RTT before those; null with `raised_ms`.", null=True),
        ),
        migrations.AddIndex(
            model_name="judgedpath",
            index=models.Index("path", condition=models.Q(raised_ms__isnull=False), name="judged_path_raised"),
        ),
    ]

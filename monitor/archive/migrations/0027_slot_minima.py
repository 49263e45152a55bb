"""Minimum RTT of each 5 minutes, in the hourly summaries.

Hours that were summarized before have none. `monitor.archive.rollup.earlier_minima` computes those that are needed,
from `since` backwards, where their raw bursts are still there.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models

from monitor.archive.fields import RealField

COMPLETE_FROM_NOW = """
    INSERT INTO kept_since (key, since)
    SELECT 'slot_minima', date_trunc('hour', now(), 'UTC') + interval '1 hour'
    WHERE EXISTS (SELECT FROM burst_hour)
"""
FORGET = "DELETE FROM kept_since WHERE key = 'slot_minima'"


class Migration(migrations.Migration):
    dependencies = [("archive", "0026_aggregates")]

    operations = [
        migrations.AddField(
            "bursthour",
            "slot_minima_ms",
            ArrayField(
                base_field=RealField(null=True),
                help_text="minimum RTT of each 5 minutes; null without replies",
                null=True,
                size=None,
            ),
        ),
        migrations.AlterField(
            "keptsince",
            "key",
            models.TextField(help_text="ledger, slots, or slot_minima while earlier ones are computed"),
        ),
        migrations.RunSQL(COMPLETE_FROM_NOW, FORGET),
    ]

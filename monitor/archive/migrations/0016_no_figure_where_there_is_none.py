"""The views of metrics say nothing of the coverage where nothing was planned, nor of the loss where nothing was sent.

`least` passes over NULL, so that both read 1.
"""

from importlib import import_module

from django.db import migrations

FIRST = import_module("monitor.archive.migrations.0005_summaries_of_all_tiers")
RIGHT = (
    ("CASE WHEN lost = 0 THEN least(", "CASE WHEN lost = 0 AND sent > 0 THEN least("),
    (
        "least((bursts + bursts_during_test)::double precision / nullif(bursts_planned, 0), 1) AS",
        "CASE WHEN bursts_planned > 0 "
        "THEN least((bursts + bursts_during_test)::double precision / bursts_planned, 1) END AS",
    ),
)


def views(changes):
    text = FIRST.METRICS.replace("CREATE VIEW", "CREATE OR REPLACE VIEW")
    for wrong, right in changes:
        text = text.replace(wrong, right)
    return [text.format(tier=tier) for tier in FIRST.TIERS]


class Migration(migrations.Migration):
    dependencies = [("archive", "0015_throughput_sweeps")]

    operations = [migrations.RunSQL(views(RIGHT), views(()))]

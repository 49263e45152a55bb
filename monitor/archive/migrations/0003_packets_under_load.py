"""The packets sent during our own throughput tests, apart from all others: a burst's, and the figures of summaries.

Coverage counts what counts: bursts without those of which no packet does, and others by the share that does.
"""

from importlib import import_module

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models

from monitor.archive.fields import RealField

BEFORE = import_module("monitor.archive.migrations.0002_reporting")

SUMMARIES = ("bursthour", "burstday", "burstmonth", "burstyear")
FIELDS = {
    "bursts_excluded": models.FloatField(
        help_text="of bursts, their shares sent during our own tests, added", null=True
    ),
    "loaded_sent": models.IntegerField(help_text="during our own tests; null where none is known", null=True),
    "loaded_received": models.IntegerField(null=True),
    "loaded_rtt_median_ms": RealField(null=True),
    "loaded_rtt_p95_ms": RealField(null=True),
    "loaded_rtt_sketch": models.BinaryField(help_text="as rtt_sketch", null=True),
}

METRICS = BEFORE.METRICS.replace("CREATE VIEW", "CREATE OR REPLACE VIEW").replace(
    """least((bursts + bursts_during_test)::double precision / bursts_planned, 1) END AS coverage_ratio
""",
    """least((bursts - coalesce(bursts_excluded, 0))::double precision / bursts_planned, 1) END AS coverage_ratio,
    loaded_sent, loaded_received, loaded_rtt_median_ms, loaded_rtt_p95_ms
""",
)
PING = BEFORE.PING.replace(
    "    estimate_bps, estimate_is_floor\n",
    """    estimate_bps, estimate_is_floor, bursts - coalesce(bursts_excluded, 0) AS bursts_counted, loaded_sent,
    loaded_received, loaded_rtt_median_ms, loaded_rtt_p95_ms
""",
)
SUMS = f"""{BEFORE.SUMS.rstrip()},
    sum(bursts - coalesce(bursts_excluded, 0)) AS bursts_counted, sum(loaded_sent) AS loaded_sent,
    sum(loaded_received) AS loaded_received
"""
SIZES_POOLED, FAMILIES_POOLED = (
    text.replace("CREATE VIEW", "CREATE OR REPLACE VIEW") for text in (BEFORE.SIZES_POOLED, BEFORE.FAMILIES_POOLED)
)
REPLACE = [
    *(text.format(tier=tier, sums=SUMS) for tier in BEFORE.TIERS for text in (METRICS, SIZES_POOLED, FAMILIES_POOLED)),
    f"CREATE OR REPLACE VIEW reporting.ping AS {BEFORE.union_of_tiers(PING)}",
]
RESTORE = [
    *(
        f"DROP VIEW {view}_{tier}"
        for tier in BEFORE.TIERS
        for view in ("metrics_by", "sizes_pooled_by", "families_pooled_by")
    ),
    "DROP VIEW reporting.ping",
    *BEFORE.of_tiers(BEFORE.METRICS, BEFORE.SIZES_POOLED, BEFORE.FAMILIES_POOLED),
    f"CREATE VIEW reporting.ping AS {BEFORE.REPORTING_VIEWS['ping']}",
]
KEEP_SKETCH_OUT_OF_ROW = "ALTER TABLE burst_{tier} ALTER COLUMN loaded_rtt_sketch SET STORAGE EXTERNAL"


class Migration(migrations.Migration):
    dependencies = [("archive", "0002_reporting")]

    operations = [
        migrations.AddField(
            "burst",
            "loaded_rtts_ms",
            ArrayField(
                base_field=RealField(null=True),
                help_text="of packets sent during a throughput test of ours, in no other column;"
                " empty where all of them were",
                null=True,
                size=None,
            ),
        ),
        *(migrations.AddField(model, name, field) for model in SUMMARIES for name, field in FIELDS.items()),
        migrations.RunSQL([KEEP_SKETCH_OUT_OF_ROW.format(tier=tier) for tier in BEFORE.TIERS], migrations.RunSQL.noop),
        migrations.RunSQL(REPLACE, RESTORE),
    ]

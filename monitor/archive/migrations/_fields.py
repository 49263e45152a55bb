"""Fields that the tables of `0001_tables` share, and those of a summary of bursts or of throughput tests."""

from django.db import models

from monitor.archive.fields import RealField

TIERS = ("hour", "day", "month", "year")
ID = ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"))
# Without an index of its own: each of these tables has a key that begins with it.
SITE = ("site", models.ForeignKey(db_index=False, on_delete=models.PROTECT, related_name="+", to="mesh.site"))
BURST_SUMMARY = [
    ("path_id", models.IntegerField()),
    ("packet_bytes", models.IntegerField()),
    ("bursts", models.IntegerField(help_text="measured, except during throughput tests")),
    ("bursts_all_lost", models.IntegerField()),
    ("bursts_none_lost", models.IntegerField()),
    ("bursts_during_test", models.IntegerField()),
    ("bursts_not_measured", models.IntegerField()),
    (
        "bursts_planned",
        models.IntegerField(help_text="planned by the mesh, to the end of the period; null without a plan", null=True),
    ),
    ("bursts_duplicated", models.IntegerField(db_default=0, help_text="with any duplicate")),
    ("bursts_reordered", models.IntegerField(db_default=0, help_text="with any reply out of order")),
    ("sent", models.IntegerField()),
    ("received", models.IntegerField()),
    ("late", models.IntegerField(db_default=0, help_text="lost packets with a reply after the timeout")),
    ("duplicates", models.IntegerField()),
    ("reordered", models.IntegerField()),
    (
        "losses_followed",
        models.IntegerField(db_default=0, help_text="losses followed by a packet of their burst"),
    ),
    (
        "losses_paired",
        models.IntegerField(db_default=0, help_text="losses followed by a loss"),
    ),
    (
        "loss_max_ratio",
        RealField(help_text="of the worst burst of an hour; of longer periods, of the worst hour", null=True),
    ),
    ("rtt_min_ms", RealField(null=True)),
    ("rtt_p25_ms", RealField(null=True)),
    ("rtt_median_ms", RealField(null=True)),
    ("rtt_p75_ms", RealField(null=True)),
    ("rtt_p90_ms", RealField(null=True)),
    ("rtt_p95_ms", RealField(null=True)),
    ("rtt_max_ms", RealField(null=True)),
    ("rtt_avg_ms", models.FloatField(null=True)),
    ("rtt_iqr_ms", models.FloatField(help_text="mean of the interquartile ranges of bursts", null=True)),
    ("ipdv_ms", RealField(help_text="interquartile range of the signed differences of consecutive RTTs", null=True)),
    (
        "received_avg_ratio",
        models.FloatField(help_text="mean of received / sent of bursts", null=True),
    ),
    ("received_max_ratio", models.FloatField(null=True)),
    (
        "rate_avg_per_ms",
        models.FloatField(help_text="mean of 1 / mean RTT of bursts", null=True),
    ),
    ("rate_max_per_ms", models.FloatField(null=True)),
    ("estimate_bps", models.FloatField(null=True)),
    ("estimate_is_floor", models.BooleanField(null=True)),
    ("rtt_sketch", models.BinaryField(help_text="monitor.analysis.sketches, in ms", null=True)),
    ("ipdv_sketch", models.BinaryField(help_text="of the signed differences of consecutive RTTs, in ms", null=True)),
]
THROUGHPUT_SUMMARY = [
    ("path_id", models.IntegerField()),
    ("tests", models.IntegerField()),
    ("tests_measured", models.IntegerField()),
    ("slots_planned", models.IntegerField()),
    ("throughput_min_bps", models.FloatField(null=True)),
    ("throughput_median_bps", models.FloatField(null=True)),
    ("throughput_max_bps", models.FloatField(null=True)),
    ("throughput_avg_bps", models.FloatField(null=True)),
    (
        "throughput_sketch",
        models.BinaryField(help_text="monitor.analysis.sketches, in bit/s", null=True),
    ),
]
BURST_SUMMARY_INDEXES = {
    "hour": [models.Index(fields=["hour"], name="burst_hour_by_hour")],
    "day": [models.Index(fields=["day"], name="burst_day_by_day")],
    "month": [models.Index(fields=["packet_bytes", "month"], name="burst_month_by_size_and_month")],
    "year": [],
}


def key(*columns):
    """The primary key of these columns."""
    return (
        "pk",
        models.CompositePrimaryKey(*columns, blank=True, editable=False, primary_key=True, serialize=False),
    )

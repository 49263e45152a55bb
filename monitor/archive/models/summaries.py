"""Summaries of results by hour, day, month and year, and the queue of those to recompute.

With TimescaleDB, `burst_hour` is a hypertable.
"""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from monitor.archive.fields import RealField


class BurstSummary(models.Model):
    """Summary of the bursts of a path and packet size that began within an hour, day, month or year (UTC). Packets
    sent during a throughput test are counted in the columns `loaded_…` and excluded from all others. Bursts without any
    other packet are counted in `bursts_during_test`, those with some in `bursts`, and the share of their packets that
    was excluded in `bursts_excluded`.

    Counts are of bursts or of packets as named. RTT columns are null when nothing was received. Quantiles are exact in
    hours; in longer summaries they come from merged sketches and are within 1%. All other columns are exact.
    `estimate_bps` is the Mathis estimate; without loss it is computed at the upper 95% bound of the loss and
    `estimate_is_floor` is set.
    """

    path_id = models.IntegerField()
    packet_bytes = models.IntegerField()
    bursts = models.IntegerField(help_text="measured, except during throughput tests")
    bursts_all_lost = models.IntegerField()
    bursts_none_lost = models.IntegerField()
    bursts_during_test = models.IntegerField()
    bursts_not_measured = models.IntegerField()
    bursts_planned = models.IntegerField(
        null=True, help_text="planned by the mesh, to the end of the period; null without a plan"
    )
    bursts_duplicated = models.IntegerField(db_default=0, help_text="with any duplicate")
    bursts_reordered = models.IntegerField(db_default=0, help_text="with any reply out of order")
    sent = models.IntegerField()
    received = models.IntegerField()
    late = models.IntegerField(db_default=0, help_text="lost packets with a reply after the timeout")
    duplicates = models.IntegerField()
    reordered = models.IntegerField()
    losses_followed = models.IntegerField(db_default=0, help_text="losses followed by a packet of their burst")
    losses_paired = models.IntegerField(db_default=0, help_text="losses followed by a loss")
    loss_max_ratio = RealField(
        null=True, help_text="of the worst burst of an hour; of longer periods, of the worst hour"
    )
    rtt_min_ms = RealField(null=True)
    rtt_p25_ms = RealField(null=True)
    rtt_median_ms = RealField(null=True)
    rtt_p75_ms = RealField(null=True)
    rtt_p90_ms = RealField(null=True)
    rtt_p95_ms = RealField(null=True)
    rtt_max_ms = RealField(null=True)
    rtt_avg_ms = models.FloatField(null=True)
    rtt_iqr_ms = models.FloatField(null=True, help_text="mean of the interquartile ranges of bursts")
    ipdv_ms = RealField(null=True, help_text="interquartile range of the signed differences of consecutive RTTs")
    received_avg_ratio = models.FloatField(null=True, help_text="mean of received / sent of bursts")
    received_max_ratio = models.FloatField(null=True)
    rate_avg_per_ms = models.FloatField(null=True, help_text="mean of 1 / mean RTT of bursts")
    rate_max_per_ms = models.FloatField(null=True)
    estimate_bps = models.FloatField(null=True)
    estimate_is_floor = models.BooleanField(null=True)
    rtt_sketch = models.BinaryField(null=True, help_text="monitor.analysis.sketches, in ms")
    ipdv_sketch = models.BinaryField(null=True, help_text="of the signed differences of consecutive RTTs, in ms")
    bursts_excluded = models.FloatField(null=True, help_text="of bursts, their shares sent during our own tests, added")
    loaded_sent = models.IntegerField(null=True, help_text="during our own tests; null where none is known")
    loaded_received = models.IntegerField(null=True)
    loaded_rtt_median_ms = RealField(null=True)
    loaded_rtt_p95_ms = RealField(null=True)
    loaded_rtt_sketch = models.BinaryField(null=True, help_text="as rtt_sketch")

    class Meta:
        abstract = True


class BurstHour(BurstSummary):
    """Computed from the raw bursts of the hour."""

    pk = models.CompositePrimaryKey("path_id", "packet_bytes", "hour")
    hour = models.DateTimeField()
    slot_minima_ms = ArrayField(
        RealField(null=True), null=True, help_text="minimum RTT of each 5 minutes; null without replies"
    )

    class Meta:
        db_table = "burst_hour"
        indexes = [models.Index(fields=["hour"], name="burst_hour_by_hour")]


class BurstDay(BurstSummary):
    """Merged from the hours of the day."""

    pk = models.CompositePrimaryKey("path_id", "packet_bytes", "day")
    day = models.DateTimeField()

    class Meta:
        db_table = "burst_day"
        indexes = [models.Index(fields=["day"], name="burst_day_by_day")]


class BurstMonth(BurstSummary):
    """Merged from the days of the month."""

    pk = models.CompositePrimaryKey("path_id", "packet_bytes", "month")
    month = models.DateTimeField()

    class Meta:
        db_table = "burst_month"
        indexes = [models.Index(fields=["packet_bytes", "month"], name="burst_month_by_size_and_month")]


class BurstYear(BurstSummary):
    """Merged from the months of the year."""

    pk = models.CompositePrimaryKey("path_id", "packet_bytes", "year")
    year = models.DateTimeField()

    class Meta:
        db_table = "burst_year"


class ThroughputSummary(models.Model):
    """Summary of the throughput tests of a path that began within an hour, day, month or year (UTC).

    `slots_planned` counts the slots scheduled in it. The median is exact in hours; in longer summaries it comes from
    merged sketches and is within 1%.
    """

    path_id = models.IntegerField()
    tests = models.IntegerField()
    tests_measured = models.IntegerField()
    slots_planned = models.IntegerField()
    throughput_min_bps = models.FloatField(null=True)
    throughput_median_bps = models.FloatField(null=True)
    throughput_max_bps = models.FloatField(null=True)
    throughput_avg_bps = models.FloatField(null=True)
    throughput_sketch = models.BinaryField(null=True, help_text="monitor.analysis.sketches, in bit/s")

    class Meta:
        abstract = True


class ThroughputHour(ThroughputSummary):
    pk = models.CompositePrimaryKey("path_id", "hour")
    hour = models.DateTimeField()

    class Meta:
        db_table = "throughput_hour"


class ThroughputDay(ThroughputSummary):
    pk = models.CompositePrimaryKey("path_id", "day")
    day = models.DateTimeField()

    class Meta:
        db_table = "throughput_day"


class ThroughputMonth(ThroughputSummary):
    pk = models.CompositePrimaryKey("path_id", "month")
    month = models.DateTimeField()

    class Meta:
        db_table = "throughput_month"


class ThroughputYear(ThroughputSummary):
    pk = models.CompositePrimaryKey("path_id", "year")
    year = models.DateTimeField()

    class Meta:
        db_table = "throughput_year"


class DirtyHour(models.Model):
    """A path and hour whose summary must be recomputed, and the time it was marked."""

    pk = models.CompositePrimaryKey("path_id", "hour")
    path_id = models.IntegerField()
    hour = models.DateTimeField()
    marked_at = models.DateTimeField()

    class Meta:
        db_table = "dirty_hour"


class DirtySummary(models.Model):
    """A path's day, month or year that must be merged again, and the time it was marked."""

    pk = models.CompositePrimaryKey("tier", "path_id", "starts_at")
    tier = models.TextField(help_text="day, month or year")
    path_id = models.IntegerField()
    starts_at = models.DateTimeField()
    marked_at = models.DateTimeField()

    class Meta:
        db_table = "dirty_summary"

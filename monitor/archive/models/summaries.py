"""Summaries by hour (a hypertable with TimescaleDB), day, month and year, and the recompute queue."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from monitor.archive.fields import RealField


class BurstSummary(models.Model):
    """Summary of a path's bursts of a packet size.

    Packets during throughput tests count only in `loaded_…`. Quantiles are exact in hours, else from merged sketches,
    within 1%. `estimate_bps` is the Mathis estimate; without loss (`estimate_is_floor`) at the upper 95% bound of loss.
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
    pk = models.CompositePrimaryKey("path_id", "packet_bytes", "hour")
    hour = models.DateTimeField()
    slot_minima_ms = ArrayField(
        RealField(null=True), null=True, help_text="minimum RTT of each 5 minutes; null without replies"
    )

    class Meta:
        db_table = "burst_hour"
        indexes = [models.Index(fields=["hour"], name="burst_hour_by_hour")]


class BurstDay(BurstSummary):
    pk = models.CompositePrimaryKey("path_id", "packet_bytes", "day")
    day = models.DateTimeField()

    class Meta:
        db_table = "burst_day"
        indexes = [models.Index(fields=["day"], name="burst_day_by_day")]


class BurstMonth(BurstSummary):
    pk = models.CompositePrimaryKey("path_id", "packet_bytes", "month")
    month = models.DateTimeField()

    class Meta:
        db_table = "burst_month"
        indexes = [models.Index(fields=["packet_bytes", "month"], name="burst_month_by_size_and_month")]


class BurstYear(BurstSummary):
    pk = models.CompositePrimaryKey("path_id", "packet_bytes", "year")
    year = models.DateTimeField()

    class Meta:
        db_table = "burst_year"


class ThroughputSummary(models.Model):
    """Summary of throughput tests. The median is exact in hours, else from merged sketches, within 1%."""

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
    pk = models.CompositePrimaryKey("path_id", "hour")
    path_id = models.IntegerField()
    hour = models.DateTimeField()
    marked_at = models.DateTimeField()

    class Meta:
        db_table = "dirty_hour"


class DirtySummary(models.Model):
    pk = models.CompositePrimaryKey("tier", "path_id", "starts_at")
    tier = models.TextField(help_text="day, month or year")
    path_id = models.IntegerField()
    starts_at = models.DateTimeField()
    marked_at = models.DateTimeField()

    class Meta:
        db_table = "dirty_summary"

"""Loss and delay by direction, from STAMP: raw results (a hypertable with TimescaleDB) and summaries."""

from __future__ import annotations

from django.db import models


class DirectionBurst(models.Model):
    """STAMP measurement, as `probes.stamp.spec.StampBurst`.

    `forward_lost` and `reverse_lost` are null without a counter of the reflector. Delays contain the far clock's
    offset, between `offset_lo_ms` and `offset_hi_ms`.
    """

    pk = models.CompositePrimaryKey("path_id", "measured_at", "packet_bytes")
    path_id = models.IntegerField()
    measured_at = models.DateTimeField()
    packet_bytes = models.IntegerField(help_text="of UDP payload")
    test = models.TextField()
    outcome = models.TextField()
    during_test = models.BooleanField()
    sent = models.SmallIntegerField()
    received = models.SmallIntegerField()
    undecided = models.SmallIntegerField(help_text="lost packets whose direction is not known")
    is_stateful = models.BooleanField(null=True, help_text="whether the reflector counts; null if undetermined")
    dscp = models.SmallIntegerField()
    forward_lost = models.SmallIntegerField(null=True)
    forward_duplicates = models.SmallIntegerField(null=True)
    forward_reordered = models.SmallIntegerField(null=True)
    forward_ttl = models.SmallIntegerField(null=True)
    forward_min_ms = models.FloatField(null=True)
    forward_median_ms = models.FloatField(null=True)
    forward_p95_ms = models.FloatField(null=True)
    forward_max_ms = models.FloatField(null=True)
    forward_ipdv_ms = models.FloatField(null=True)
    reverse_lost = models.SmallIntegerField(null=True)
    reverse_duplicates = models.SmallIntegerField(null=True)
    reverse_reordered = models.SmallIntegerField(null=True)
    reverse_ttl = models.SmallIntegerField(null=True)
    reverse_min_ms = models.FloatField(null=True)
    reverse_median_ms = models.FloatField(null=True)
    reverse_p95_ms = models.FloatField(null=True)
    reverse_max_ms = models.FloatField(null=True)
    reverse_ipdv_ms = models.FloatField(null=True)
    offset_lo_ms = models.FloatField(null=True)
    offset_hi_ms = models.FloatField(null=True)
    are_clocks_synchronised = models.BooleanField(null=True, help_text="both, as they claim; null if not known")
    peer_packets = models.IntegerField(
        null=True, help_text="of the far end, received by our own reflector since the cycle before; null if not known"
    )
    stamp = models.TextField(null=True)
    address = models.GenericIPAddressField(null=True)
    source_address = models.GenericIPAddressField(null=True, help_text="local address of its packets")
    detail = models.TextField(null=True)

    class Meta:
        db_table = "direction_burst"
        indexes = [models.Index(fields=["measured_at"], name="direction_by_time")]


class OneWaySummary(models.Model):
    """Summary by direction of bursts outside throughput tests, all packet sizes together.

    Forward loss is `forward_lost / counted`, reverse loss `reverse_lost / (counted - forward_lost)`. Delay means are
    over bursts' medians; `…_variation_ms` is the mean of p95 less minimum (PDV, RFC 5481).
    """

    path_id = models.IntegerField()
    bursts = models.IntegerField()
    bursts_counted = models.IntegerField(help_text="with counters of the reflector")
    bursts_delayed = models.IntegerField(help_text="with timestamps of the reflector")
    sent = models.BigIntegerField()
    received = models.BigIntegerField()
    counted = models.BigIntegerField()
    forward_lost = models.BigIntegerField()
    forward_lossy = models.IntegerField()
    forward_duplicates = models.BigIntegerField(null=True)
    forward_reordered = models.BigIntegerField(null=True)
    forward_min_ms = models.FloatField(null=True)
    forward_avg_ms = models.FloatField(null=True)
    forward_variation_ms = models.FloatField(null=True)
    forward_ipdv_ms = models.FloatField(null=True)
    reverse_lost = models.BigIntegerField()
    reverse_lossy = models.IntegerField()
    reverse_duplicates = models.BigIntegerField(null=True)
    reverse_reordered = models.BigIntegerField(null=True)
    reverse_min_ms = models.FloatField(null=True)
    reverse_avg_ms = models.FloatField(null=True)
    reverse_variation_ms = models.FloatField(null=True)
    reverse_ipdv_ms = models.FloatField(null=True)
    offset_lo_ms = models.FloatField(null=True)
    offset_hi_ms = models.FloatField(null=True)

    class Meta:
        abstract = True


class DirectionHour(OneWaySummary):
    pk = models.CompositePrimaryKey("path_id", "hour")
    hour = models.DateTimeField()

    class Meta:
        db_table = "direction_hour"


class DirectionDay(OneWaySummary):
    pk = models.CompositePrimaryKey("path_id", "day")
    day = models.DateTimeField()

    class Meta:
        db_table = "direction_day"


class DirectionMonth(OneWaySummary):
    pk = models.CompositePrimaryKey("path_id", "month")
    month = models.DateTimeField()

    class Meta:
        db_table = "direction_month"


class DirectionYear(OneWaySummary):
    pk = models.CompositePrimaryKey("path_id", "year")
    year = models.DateTimeField()

    class Meta:
        db_table = "direction_year"

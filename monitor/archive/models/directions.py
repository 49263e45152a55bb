"""Loss and delay of paths by direction, from STAMP: raw results, and their summaries by hour, day, month and year.

With TimescaleDB, `direction_burst` is a hypertable. Keys are as in `monitor.archive.models.results`.
"""

from __future__ import annotations

from django.db import models


class DirectionBurst(models.Model):
    """A STAMP measurement of a path, as `probes.stamp.spec.StampBurst`, without its single RTTs: where they are the
    path's series, they are in `burst` too.

    `forward_lost` and `reverse_lost` are null where the reflector keeps no counter; `undecided` lost packets are in
    neither. The delays are raw: receive time less send time, each by the clock of its end, so that they contain the
    offset of the far clock from our own, which lies between `offset_lo_ms` and `offset_hi_ms`.
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
    """Summary of the directions of a path over an hour, day, month or year (UTC), all packet sizes together; of
    measured bursts outside throughput tests.

    `counted` packets have a known fate in each direction: forward loss is `forward_lost / counted`, reverse loss
    `reverse_lost / (counted - forward_lost)`. `forward_lossy` bursts, of the `bursts_counted`, lost a packet forward.
    Means of delays are over the medians of `bursts_delayed`; `…_variation_ms` is the mean of the 95th percentile less
    the minimum (PDV, RFC 5481). The mean offset of the clocks lies between `offset_lo_ms` and `offset_hi_ms`.
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
    """Computed from the raw results of the hour."""

    pk = models.CompositePrimaryKey("path_id", "hour")
    hour = models.DateTimeField()

    class Meta:
        db_table = "direction_hour"


class DirectionDay(OneWaySummary):
    """Merged from the hours of the day."""

    pk = models.CompositePrimaryKey("path_id", "day")
    day = models.DateTimeField()

    class Meta:
        db_table = "direction_day"


class DirectionMonth(OneWaySummary):
    """Merged from the days of the month."""

    pk = models.CompositePrimaryKey("path_id", "month")
    month = models.DateTimeField()

    class Meta:
        db_table = "direction_month"


class DirectionYear(OneWaySummary):
    """Merged from the months of the year."""

    pk = models.CompositePrimaryKey("path_id", "year")
    year = models.DateTimeField()

    class Meta:
        db_table = "direction_year"

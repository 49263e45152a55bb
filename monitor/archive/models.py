"""What was measured: raw results, their hourly summaries, and the book-keeping of delivery.

Written by `ingest` and `rollups` only, read by `queries` only. Keys contain the time column, as hypertables want it;
there are no foreign keys to the mesh on raw tables, since ingest has checked the path once for each batch.
Where TimescaleDB is there, `burst`, `throughput_test` and `burst_hour` are hypertables (migration 0002).
"""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from monitor.archive.fields import RealField


class Burst(models.Model):
    """One PingER measurement of a path, as the agent's `probes.ping.spec.Burst` has it. Loss is derived.

    The time comes before the size in the key: an hour of a path is then one stretch of the index, whatever its sizes.
    """

    pk = models.CompositePrimaryKey("path_id", "measured_at", "packet_bytes")
    path_id = models.IntegerField()
    measured_at = models.DateTimeField()
    packet_bytes = models.IntegerField()
    outcome = models.TextField()
    sent = models.SmallIntegerField()
    received = models.SmallIntegerField()
    duplicates = models.SmallIntegerField()
    reordered = models.SmallIntegerField()
    late = models.SmallIntegerField(db_default=0, help_text="of the lost, those answered after the timeout")
    ttl = models.SmallIntegerField(null=True)
    ttl_changes = models.SmallIntegerField(db_default=0)
    during_test = models.BooleanField()
    rate_limited = models.BooleanField(null=True, help_text="the loss grows with our own rate; null where not known")
    stamp = models.TextField(null=True)
    stamps_lost = models.SmallIntegerField(db_default=0)
    clock_source = models.TextField(null=True)
    waited = models.SmallIntegerField(db_default=0, help_text="requests that found our send buffer full")
    errors = models.JSONField(null=True, help_text="ICMP errors as probes.ping.spec.IcmpError; null where none came")
    path_mtu_bytes = models.IntegerField(null=True)
    address = models.GenericIPAddressField(null=True)
    detail = models.TextField(null=True)
    rtts_ms = ArrayField(RealField(null=True), help_text="in the order of sending, null where lost")

    class Meta:
        db_table = "burst"
        indexes = [models.Index(fields=["measured_at"], name="burst_by_time")]


class ThroughputTest(models.Model):
    """One throughput test of a path. Everything that was not measured is null, never 0."""

    pk = models.CompositePrimaryKey("path_id", "measured_at")
    path_id = models.IntegerField()
    measured_at = models.DateTimeField()
    test = models.TextField()
    slot_id = models.BigIntegerField(null=True)
    outcome = models.TextField()
    streams = models.SmallIntegerField()
    duration_s = models.FloatField(null=True)
    throughput_bps = models.FloatField(null=True)
    sent_bytes = models.BigIntegerField(null=True)
    received_bytes = models.BigIntegerField(null=True)
    retransmits = models.IntegerField(null=True)
    rtt_mean_ms = RealField(null=True)
    congestion_control = models.TextField(null=True)
    tool = models.TextField(null=True)
    detail = models.TextField(null=True)
    intervals = models.JSONField(default=list, help_text="As probes.throughput.spec.Interval")

    class Meta:
        db_table = "throughput_test"
        indexes = [models.Index(fields=["measured_at"], name="throughput_by_time")]


class BurstHour(models.Model):
    """The bursts of one path and packet size that began within one hour. Bursts that overlap our own throughput
    test are counted in `bursts_during_test` and left out of everything else.

    Counts are of bursts or of packets as named. RTT columns are null when nothing was received. `estimate_bps` is the
    Mathis estimate; with nothing lost it is computed at the upper 95% bound of the loss and `estimate_is_floor` is set.
    """

    pk = models.CompositePrimaryKey("path_id", "packet_bytes", "hour")
    path_id = models.IntegerField()
    packet_bytes = models.IntegerField()
    hour = models.DateTimeField()
    bursts = models.IntegerField(help_text="measured, own tests left out")
    bursts_all_lost = models.IntegerField()
    bursts_none_lost = models.IntegerField()
    bursts_during_test = models.IntegerField()
    bursts_not_measured = models.IntegerField()
    sent = models.IntegerField()
    received = models.IntegerField()
    duplicates = models.IntegerField()
    reordered = models.IntegerField()
    rtt_min_ms = RealField(null=True)
    rtt_p25_ms = RealField(null=True)
    rtt_median_ms = RealField(null=True)
    rtt_p75_ms = RealField(null=True)
    rtt_p95_ms = RealField(null=True)
    rtt_max_ms = RealField(null=True)
    rtt_avg_ms = RealField(null=True)
    ipdv_ms = RealField(null=True, help_text="inter-quartile range of the signed differences")
    estimate_bps = models.FloatField(null=True)
    estimate_is_floor = models.BooleanField(null=True)

    class Meta:
        db_table = "burst_hour"
        indexes = [models.Index(fields=["hour"], name="burst_hour_by_hour")]


class DirtyHour(models.Model):
    """A path and hour whose summary must be computed again, and since when that is so."""

    pk = models.CompositePrimaryKey("path_id", "hour")
    path_id = models.IntegerField()
    hour = models.DateTimeField()
    marked_at = models.DateTimeField()

    class Meta:
        db_table = "dirty_hour"


class ReceivedBatch(models.Model):
    """A batch that was stored: which agent's spool it came from, its number, and what became of its results."""

    site = models.ForeignKey("mesh.Site", on_delete=models.PROTECT, related_name="+")
    spool = models.TextField()
    number = models.BigIntegerField()
    received_at = models.DateTimeField()
    sent_at = models.DateTimeField()
    agent_version = models.TextField()
    accepted = models.IntegerField()
    refused = models.IntegerField()
    queued = models.IntegerField(help_text="results left in the agent's spool")
    dropped = models.IntegerField(help_text="results that the agent's spool had to drop, ever")

    class Meta:
        db_table = "received_batch"
        constraints = [models.UniqueConstraint(fields=["site", "spool", "number"], name="batch_stored_once")]
        indexes = [models.Index(fields=["site", "-received_at"], name="batch_by_site_and_time")]


class RefusedResult(models.Model):
    """A result that was not stored, with the reason that the agent was told."""

    site = models.ForeignKey("mesh.Site", on_delete=models.PROTECT, related_name="+")
    spool = models.TextField()
    sequence = models.BigIntegerField()
    refused_at = models.DateTimeField()
    reason = models.TextField()
    result = models.JSONField()

    class Meta:
        db_table = "refused_result"
        constraints = [models.UniqueConstraint(fields=["site", "spool", "sequence"], name="result_refused_once")]

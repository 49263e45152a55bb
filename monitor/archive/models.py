"""Measurements: raw results, summaries by hour, day, month and year, and the records of deliveries.

Written only by `ingest` and `rollup`, read only by `queries`. Keys contain the time column, as hypertables require. Raw
tables have no foreign keys to the mesh: ingest checks the path once per batch. With TimescaleDB, `burst`,
`throughput_test`, `capacity_result` and `burst_hour` are hypertables.
"""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from monitor.archive.fields import MultirangeField, RealField


class Burst(models.Model):
    """A PingER burst of a path, as the agent's `probes.ping.spec.Burst`. Loss is derived.

    The time comes before the size in the key, so that an hour of a path is contiguous in the index.
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
    """A throughput test of a path. Unmeasured values are null, never 0.

    `throughput_bps` is the rate after slow start where the intervals allow to compute it (`steady_s` is the length of
    that part in seconds), otherwise the average of the test, which `average_bps` always holds.
    """

    pk = models.CompositePrimaryKey("path_id", "measured_at")
    path_id = models.IntegerField()
    measured_at = models.DateTimeField()
    test = models.TextField()
    slot_id = models.BigIntegerField(null=True)
    outcome = models.TextField()
    streams = models.SmallIntegerField()
    duration_s = models.FloatField(null=True)
    throughput_bps = models.FloatField(null=True)
    average_bps = models.FloatField(null=True, help_text="of the whole test, what the tool omitted left out")
    steady_s = models.FloatField(null=True, help_text="null where throughput_bps is the average")
    protocol = models.TextField(db_default="tcp", help_text="tcp or udp")
    asked_bps = models.FloatField(null=True, help_text="the rate that the sender was told to keep to")
    sent_bytes = models.BigIntegerField(null=True)
    received_bytes = models.BigIntegerField(null=True)
    retransmits = models.IntegerField(null=True)
    rtt_mean_ms = RealField(null=True)
    congestion_control = models.TextField(null=True)
    tool = models.TextField(null=True)
    detail = models.TextField(null=True)
    verdict = models.TextField(null=True, help_text="what limited it, as monitor.analysis.transfer.Verdict")
    sentence = models.TextField(null=True, help_text="the verdict with its evidence, in words")
    diagnosis = models.JSONField(null=True, help_text="the rest of it, as monitor.archive.diagnosis.findings.Findings")
    transfer = models.JSONField(null=True, help_text="as probes.throughput.spec.Transfer")

    class Meta:
        db_table = "throughput_test"
        indexes = [models.Index(fields=["measured_at"], name="throughput_by_time")]


class UndiagnosedTest(models.Model):
    """A stored throughput test queued for diagnosis, or for a new diagnosis after its other end reported."""

    pk = models.CompositePrimaryKey("path_id", "measured_at")
    path_id = models.IntegerField()
    measured_at = models.DateTimeField()

    class Meta:
        db_table = "undiagnosed_test"


class DiskToDiskTest(models.Model):
    """A disk-to-disk measurement of a path; columns as in `probes.disk_to_disk.spec.DiskToDiskRun`.

    Every rate is null unless `outcome` is `measured`, never 0. `verdict` is the limit, a
    `monitor.analysis.transfer.Limit`; `sentence` is the verdict with its evidence.
    """

    pk = models.CompositePrimaryKey("path_id", "measured_at")
    path_id = models.IntegerField()
    measured_at = models.DateTimeField()
    test = models.TextField()
    slot_id = models.BigIntegerField(null=True)
    outcome = models.TextField()
    tool = models.TextField(help_text="fetch or iperf3")
    streams = models.SmallIntegerField()
    file_bytes = models.BigIntegerField(null=True)
    moved_bytes = models.BigIntegerField(null=True, help_text="of the file, in the time that it had")
    moving_s = models.FloatField(null=True, help_text="until the last byte had arrived")
    syncing_s = models.FloatField(null=True, help_text="from then on, until the receiver's disk had all")
    disk_to_disk_bps = models.FloatField(null=True, help_text="of both times together")
    memory_to_memory_bps = models.FloatField(null=True)
    read_bps = models.FloatField(null=True, help_text="of the sender's disk alone")
    read_cached_ratio = models.FloatField(null=True, help_text="of the file that memory still held then")
    write_bps = models.FloatField(null=True, help_text="of the receiver's disk alone, until it had all")
    is_verified = models.BooleanField(null=True, help_text="checksums are alike; null where nobody looked")
    verdict = models.TextField(null=True)
    sentence = models.TextField(null=True)
    detail = models.TextField(null=True)

    class Meta:
        db_table = "disk_to_disk_test"
        indexes = [models.Index(fields=["measured_at"], name="disk_to_disk_by_time")]


class CapacityResult(models.Model):
    """An estimate of a path's bottleneck capacity, forward or reverse; columns as in
    `probes.capacity.spec.CapacityRun`.

    `capacity_bps` is null unless `verdict` is `measured`; `capacity_low_bps` without it is a lower bound.
    """

    pk = models.CompositePrimaryKey("path_id", "measured_at")
    path_id = models.IntegerField()
    measured_at = models.DateTimeField()
    test = models.TextField()
    outcome = models.TextField()
    verdict = models.TextField(null=True)
    capacity_bps = models.FloatField(null=True)
    capacity_low_bps = models.FloatField(null=True)
    capacity_high_bps = models.FloatField(null=True)
    packet_bytes = models.IntegerField(null=True, help_text="of ICMP payload")
    sent = models.SmallIntegerField()
    received = models.SmallIntegerField()
    method = models.TextField(null=True)
    during_test = models.BooleanField()
    address = models.GenericIPAddressField(null=True)
    detail = models.TextField(null=True)

    class Meta:
        db_table = "capacity_result"
        indexes = [models.Index(fields=["measured_at"], name="capacity_by_time")]


class BurstSummary(models.Model):
    """Summary of the bursts of a path and packet size that began within an hour, day, month or year (UTC). Bursts
    during a throughput test are counted in `bursts_during_test` and excluded from all other columns.

    Counts are of bursts or of packets as named. RTT columns are null when nothing was received. Quantiles are exact in
    hours; in longer summaries they come from merged sketches and are within 1%. All other columns are exact.
    `estimate_bps` is the Mathis estimate; without loss it is computed at the upper 95% bound of the loss and
    `estimate_is_floor` is set.
    """

    path_id = models.IntegerField()
    packet_bytes = models.IntegerField()
    bursts = models.IntegerField(help_text="measured, own tests left out")
    bursts_all_lost = models.IntegerField()
    bursts_none_lost = models.IntegerField()
    bursts_during_test = models.IntegerField()
    bursts_not_measured = models.IntegerField()
    bursts_planned = models.IntegerField(null=True, help_text="by the mesh, to the period's end; null without a plan")
    bursts_duplicated = models.IntegerField(db_default=0, help_text="with any duplicate")
    bursts_reordered = models.IntegerField(db_default=0, help_text="with any reply out of order")
    sent = models.IntegerField()
    received = models.IntegerField()
    late = models.IntegerField(db_default=0, help_text="of the lost, those answered after the timeout")
    duplicates = models.IntegerField()
    reordered = models.IntegerField()
    losses_followed = models.IntegerField(db_default=0, help_text="losses with a packet after them in their burst")
    losses_paired = models.IntegerField(db_default=0, help_text="of those, the ones with that packet lost too")
    loss_max_ratio = RealField(null=True, help_text="of an hour's bursts the worst, of anything longer its worst hour")
    rtt_min_ms = RealField(null=True)
    rtt_p25_ms = RealField(null=True)
    rtt_median_ms = RealField(null=True)
    rtt_p75_ms = RealField(null=True)
    rtt_p90_ms = RealField(null=True)
    rtt_p95_ms = RealField(null=True)
    rtt_max_ms = RealField(null=True)
    rtt_avg_ms = models.FloatField(null=True)
    rtt_iqr_ms = models.FloatField(null=True, help_text="mean of the bursts' inter-quartile ranges")
    ipdv_ms = RealField(null=True, help_text="inter-quartile range of the signed differences")
    received_avg_ratio = models.FloatField(null=True, help_text="mean of the bursts' received over sent")
    received_max_ratio = models.FloatField(null=True)
    rate_avg_per_ms = models.FloatField(null=True, help_text="mean of 1 over the bursts' mean round trips")
    rate_max_per_ms = models.FloatField(null=True)
    estimate_bps = models.FloatField(null=True)
    estimate_is_floor = models.BooleanField(null=True)
    rtt_sketch = models.BinaryField(null=True, help_text="as monitor.analysis.sketches, in ms")
    ipdv_sketch = models.BinaryField(null=True, help_text="of the signed differences, in ms")

    class Meta:
        abstract = True


class BurstHour(BurstSummary):
    """Computed from the raw bursts of the hour."""

    pk = models.CompositePrimaryKey("path_id", "packet_bytes", "hour")
    hour = models.DateTimeField()

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
    throughput_sketch = models.BinaryField(null=True, help_text="as monitor.analysis.sketches, in bit/s")

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


class ReceivedBatch(models.Model):
    """A stored batch: site, batch number and counts of its results."""

    site = models.ForeignKey("mesh.Site", on_delete=models.PROTECT, related_name="+", db_index=False)
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
    """A rejected result, with the reason sent to the agent."""

    site = models.ForeignKey("mesh.Site", on_delete=models.PROTECT, related_name="+", db_index=False)
    spool = models.TextField()
    sequence = models.BigIntegerField()
    refused_at = models.DateTimeField()
    reason = models.TextField()
    result = models.JSONField()

    class Meta:
        db_table = "refused_result"
        constraints = [models.UniqueConstraint(fields=["site", "spool", "sequence"], name="result_refused_once")]


class CycleDay(models.Model):
    """Cycles of a path's test that began on a UTC day and ended with this outcome.

    A cycle's number is its time since the epoch divided by `every_s`. A cycle reported with several outcomes, such as
    for several packet sizes, is in several rows; `monitor.archive.queries.ledger` decides which counts.
    """

    pk = models.CompositePrimaryKey("path_id", "test", "every_s", "day", "outcome")
    path_id = models.IntegerField()
    test = models.TextField()
    every_s = models.IntegerField()
    day = models.DateField()
    outcome = models.TextField()
    cycles = MultirangeField(help_text="of numbers of cycles")

    class Meta:
        db_table = "cycle_day"


class AgentGap(models.Model):
    """Reason why cycles scheduled in [since, until) at a site have no result: the cycles of a test with this schedule,
    or of all tests."""

    site = models.ForeignKey("mesh.Site", on_delete=models.PROTECT, related_name="+", db_index=False)
    test = models.TextField(blank=True, help_text="empty for all")
    every_s = models.IntegerField(default=0, help_text="0 for all")
    reason = models.TextField()
    since = models.DateTimeField()
    until = models.DateTimeField()

    class Meta:
        db_table = "agent_gap"
        constraints = [
            models.UniqueConstraint(
                fields=["site", "test", "every_s", "reason", "since", "until"], name="gap_stored_once"
            )
        ]
        indexes = [models.Index(fields=["site", "until"], name="gap_by_site_and_end")]


class AgentAccount(models.Model):
    """Period [since, until) for which a site's agent has accounted for all its cycles."""

    site = models.OneToOneField("mesh.Site", on_delete=models.PROTECT, primary_key=True, related_name="+")
    since = models.DateTimeField()
    until = models.DateTimeField()

    class Meta:
        db_table = "agent_account"


class DeliveredDay(models.Model):
    """Sequence numbers of a spool received for results of a UTC day, rejected results included. Never deleted."""

    site = models.ForeignKey("mesh.Site", on_delete=models.PROTECT, related_name="+", db_index=False)
    spool = models.TextField()
    day = models.DateField()
    sequences = MultirangeField(help_text="of numbers in the agent's spool")

    class Meta:
        db_table = "delivered_day"
        constraints = [models.UniqueConstraint(fields=["site", "spool", "day"], name="one_row_a_spool_and_day")]


class CentreSample(models.Model):
    """Load of the centre, sampled each minute by its worker; the newest row also shows when Celery beat last worked."""

    at = models.DateTimeField(primary_key=True)
    since = models.DateTimeField(help_text="from when on deliveries are counted: the sample before")
    accepted = models.IntegerField(help_text="results that came in this time and were stored")
    refused = models.IntegerField()
    newest_measured_at = models.DateTimeField(null=True, help_text="of all results")
    queued = models.BigIntegerField(help_text="results in all agents' spools, as they last said")
    queue_length = models.IntegerField(null=True, help_text="tasks that wait in Redis; null while it is away")
    hours_waiting = models.IntegerField(help_text="hours that wait for their summary")
    waited_s = models.FloatField(help_text="the longest of them; 0 where none waits")
    database_bytes = models.BigIntegerField()

    class Meta:
        db_table = "centre_sample"


class TableSize(models.Model):
    """Size of a table, recorded each hour to compute its growth."""

    pk = models.CompositePrimaryKey("name", "at")
    name = models.TextField()
    at = models.DateTimeField()
    row_estimate = models.BigIntegerField()
    total_bytes = models.BigIntegerField()

    class Meta:
        db_table = "table_size"


class KeptSince(models.Model):
    """Time since which all records of a retention key are complete; earlier records were deleted and are not
    missing."""

    key = models.TextField(help_text="ledger or slots")
    since = models.DateTimeField()

    class Meta:
        db_table = "kept_since"
        constraints = [models.UniqueConstraint(fields=["key"], name="one_time_a_key")]


class LastRun(models.Model):
    """Last completion of a task of the centre, named as in `monitor.archive.upkeep.freshness.Work`."""

    name = models.TextField()
    at = models.DateTimeField()

    class Meta:
        db_table = "last_run"
        constraints = [models.UniqueConstraint(fields=["name"], name="one_last_run_a_name")]


class ThroughputSweep(models.Model):
    """A named grid of on-demand tests on a path."""

    path_id = models.IntegerField()
    name = models.TextField()
    asked_at = models.DateTimeField()
    asked_by = models.TextField()

    class Meta:
        db_table = "throughput_sweep"


class SweepCell(models.Model):
    """A cell of a sweep with the outcome of its test. `slot_id` is null until the test is requested, `outcome` until it
    has ended; figures are null unless measured. Cells outlive their slots and raw tests."""

    sweep = models.ForeignKey(ThroughputSweep, on_delete=models.CASCADE, related_name="cells", db_index=False)
    place = models.SmallIntegerField(help_text="in the order of running")
    parameters = models.JSONField(help_text="as monitor.mesh.on_demand.Settings")
    slot_id = models.BigIntegerField(null=True)
    outcome = models.TextField(null=True)
    detail = models.TextField(null=True)
    measured_at = models.DateTimeField(null=True)
    throughput_bps = models.FloatField(null=True)
    idle_rtt_ms = models.FloatField(null=True)
    verdict = models.TextField(null=True)
    sentence = models.TextField(null=True)

    class Meta:
        db_table = "throughput_sweep_cell"
        constraints = [models.UniqueConstraint(fields=["sweep", "place"], name="one_cell_a_place")]

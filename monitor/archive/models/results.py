"""Raw results, without foreign keys to the mesh. Keys contain the time column, as hypertables require."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from monitor.archive.fields import RealField


class Burst(models.Model):
    """A PingER burst of a path, as the agent's `probes.packets.spec.Burst`. Loss is derived.

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
    late = models.SmallIntegerField(db_default=0, help_text="lost packets with a reply after the timeout")
    ttl = models.SmallIntegerField(null=True)
    ttl_changes = models.SmallIntegerField(db_default=0)
    during_test = models.BooleanField()
    rate_limited = models.BooleanField(
        null=True, help_text="ICMP rate limiting: loss grows with our own rate; null if unknown"
    )
    flow = models.IntegerField(null=True, help_text="ICMP checksum of its requests, as in traces; null if not reported")
    source_address = models.GenericIPAddressField(null=True, help_text="local address of its requests")
    stamp = models.TextField(null=True)
    stamps_lost = models.SmallIntegerField(db_default=0)
    clock_source = models.TextField(null=True)
    waited = models.SmallIntegerField(db_default=0, help_text="requests delayed by a full send buffer")
    errors = models.JSONField(null=True, help_text="ICMP errors, as probes.packets.spec.IcmpError; null without any")
    path_mtu_bytes = models.IntegerField(null=True)
    address = models.GenericIPAddressField(null=True)
    detail = models.TextField(null=True)
    loaded_rtts_ms = ArrayField(
        RealField(null=True),
        null=True,
        help_text="of packets sent during a throughput test of ours, in no other column; empty where all of them were",
    )
    rtts_ms = ArrayField(RealField(null=True), help_text="in sending order, null for lost packets")

    class Meta:
        db_table = "burst"
        indexes = [models.Index(fields=["measured_at"], name="burst_by_time")]


class ThroughputTest(models.Model):
    """Throughput test. Unmeasured values are null, never 0.

    `throughput_bps` is the rate after slow start where `steady_s` is set, else `average_bps`.
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
    average_bps = models.FloatField(null=True, help_text="of the whole test, without the tool's omitted seconds")
    steady_s = models.FloatField(null=True, help_text="null if throughput_bps is the average")
    protocol = models.TextField(db_default="tcp", help_text="tcp or udp")
    asked_bps = models.FloatField(null=True, help_text="requested sending rate")
    sent_bytes = models.BigIntegerField(null=True)
    received_bytes = models.BigIntegerField(null=True)
    retransmits = models.IntegerField(null=True)
    rtt_mean_ms = RealField(null=True)
    congestion_control = models.TextField(null=True)
    tool = models.TextField(null=True)
    detail = models.TextField(null=True)
    verdict = models.TextField(null=True, help_text="its bottleneck, as monitor.analysis.transfer.Verdict")
    sentence = models.TextField(null=True, help_text="the verdict with its evidence, in words")
    diagnosis = models.JSONField(null=True, help_text="details, as monitor.archive.diagnosis.findings.Findings")
    transfer = models.JSONField(null=True, help_text="as probes.transfers.spec.Transfer")
    sender_inventory_id = models.BigIntegerField(null=True, help_text="in host_inventory")
    receiver_inventory_id = models.BigIntegerField(null=True, help_text="in host_inventory")

    class Meta:
        db_table = "throughput_test"
        indexes = [models.Index(fields=["measured_at"], name="throughput_by_time")]


class StoredInventory(models.Model):
    """Host inventory, stored once for all its tests."""

    digest = models.BinaryField(unique=True, help_text="SHA-256 of its JSON")
    inventory = models.JSONField(help_text="as probes.transfers.hosts.spec.HostInventory")
    last_at = models.DateTimeField(help_text="of the newest test with it")

    class Meta:
        db_table = "host_inventory"


class StoredCapture(models.Model):
    """Packet headers captured by an end of a test. `findings` are null until computed."""

    SENDER, RECEIVER = "sender", "receiver"

    pk = models.CompositePrimaryKey("slot_id", "role")
    slot_id = models.BigIntegerField()
    role = models.TextField(help_text="sender or receiver")
    path_id = models.IntegerField()
    captured_at = models.DateTimeField()
    packets = models.IntegerField()
    left_out_packets = models.BigIntegerField(help_text="of the test, not captured")
    parts = models.JSONField(null=True, help_text="as probes.transfers.spec.CapturedPart; null: all up to the last")
    reason = models.TextField(null=True, help_text="why there are no packets")
    pcap_zlib = models.BinaryField(null=True)
    findings = models.JSONField(null=True, help_text="as monitor.archive.diagnosis.capture_findings.CaptureFindings")
    losses = models.JSONField(
        null=True, help_text="as monitor.analysis.packets.CaptureLosses; in the row of the sender alone"
    )

    class Meta:
        db_table = "throughput_capture"
        indexes = [
            models.Index(
                fields=["captured_at"],
                name="capture_without_findings",
                condition=models.Q(findings__isnull=True, reason__isnull=True),
            ),
        ]

    @classmethod
    def other_end(cls, role: str) -> str:
        return cls.RECEIVER if role == cls.SENDER else cls.SENDER


class UndiagnosedTest(models.Model):
    """Throughput test queued for diagnosis, again after the other end reported."""

    pk = models.CompositePrimaryKey("path_id", "measured_at")
    path_id = models.IntegerField()
    measured_at = models.DateTimeField()

    class Meta:
        db_table = "undiagnosed_test"


class DiskToDiskTest(models.Model):
    """Disk-to-disk measurement, as `probes.disk_to_disk.spec.DiskToDiskRun`; `verdict` is a
    `monitor.analysis.transfer.DiskLimit`. Rates are null unless measured."""

    pk = models.CompositePrimaryKey("path_id", "measured_at")
    path_id = models.IntegerField()
    measured_at = models.DateTimeField()
    test = models.TextField()
    slot_id = models.BigIntegerField(null=True)
    outcome = models.TextField()
    tool = models.TextField(help_text="fetch or iperf3")
    streams = models.SmallIntegerField()
    file_bytes = models.BigIntegerField(null=True)
    moved_bytes = models.BigIntegerField(null=True, help_text="bytes of the file within the permitted time")
    moving_s = models.FloatField(null=True, help_text="time until the last byte arrived")
    syncing_s = models.FloatField(null=True, help_text="from then on, until the receiver's disk had all bytes")
    disk_to_disk_bps = models.FloatField(null=True, help_text="over both times together")
    memory_to_memory_bps = models.FloatField(null=True)
    read_bps = models.FloatField(null=True, help_text="of the sender's disk alone")
    read_cached_ratio = models.FloatField(null=True, help_text="share of the file that was still in memory")
    write_bps = models.FloatField(null=True, help_text="of the receiver's disk alone, including the sync")
    is_verified = models.BooleanField(null=True, help_text="checksums match; null if not compared")
    verdict = models.TextField(null=True)
    sentence = models.TextField(null=True)
    detail = models.TextField(null=True)

    class Meta:
        db_table = "disk_to_disk_test"
        indexes = [models.Index(fields=["measured_at"], name="disk_to_disk_by_time")]


class PolicerResult(models.Model):
    """Policer test, as `probes.policer.spec.PolicerRun`. `verdict` is null unless measured."""

    pk = models.CompositePrimaryKey("path_id", "measured_at")
    path_id = models.IntegerField()
    measured_at = models.DateTimeField()
    test = models.TextField()
    slot_id = models.BigIntegerField(null=True)
    outcome = models.TextField()
    verdict = models.TextField(null=True, help_text="policer, shaper, link, no_limit or undetermined")
    sustained_bps = models.FloatField(null=True, help_text="of IP packets, headers included")
    sustained_low_bps = models.FloatField(null=True)
    sustained_high_bps = models.FloatField(null=True)
    burst_bytes = models.FloatField(null=True, help_text="bytes that pass at once above the rate")
    burst_low_bytes = models.FloatField(null=True)
    burst_high_bytes = models.FloatField(null=True)
    peak_bps = models.FloatField(null=True, help_text="rate at which the trains were sent")
    packet_bytes = models.IntegerField(null=True)
    sent = models.IntegerField()
    received = models.IntegerField()
    sent_bytes = models.BigIntegerField()
    delay_rise_ms = models.FloatField(null=True)
    sentence = models.TextField(null=True)
    detail = models.TextField(null=True)

    class Meta:
        db_table = "policer_result"
        indexes = [models.Index(fields=["measured_at"], name="policer_by_time")]


class IdleRestartResult(models.Model):
    """Test of slow start after idle, as `probes.idle_restart.spec.IdleRestartRun`. Figures are null unless measured."""

    pk = models.CompositePrimaryKey("path_id", "measured_at")
    path_id = models.IntegerField()
    measured_at = models.DateTimeField()
    test = models.TextField()
    slot_id = models.BigIntegerField(null=True)
    outcome = models.TextField()
    restarted = models.BooleanField(null=True, help_text="null where it cannot be told")
    before_bps = models.FloatField(null=True)
    is_steady = models.BooleanField(null=True)
    cwnd_before = models.IntegerField(null=True, help_text="segments")
    cwnd_after = models.IntegerField(null=True, help_text="segments")
    timeout_s = models.FloatField(null=True)
    rtt_ms = models.FloatField(null=True)
    pause_s = models.FloatField(null=True)
    duration_s = models.FloatField(null=True)
    rise_s = models.FloatField(null=True)
    back_s = models.FloatField(null=True)
    setting = models.TextField(null=True, help_text="the sender's net.ipv4.tcp_slow_start_after_idle")
    sent_bytes = models.BigIntegerField(null=True)
    sentence = models.TextField(null=True)
    detail = models.TextField(null=True)

    class Meta:
        db_table = "idle_restart"
        indexes = [models.Index(fields=["measured_at"], name="idle_restart_by_time")]


class RequestResponseResult(models.Model):
    """Run of transactions, a single block outstanding, as `probes.request_response.spec.RequestResponseRun` and
    `probes.request_response.percentiles.LatencyFigures`."""

    pk = models.CompositePrimaryKey("path_id", "measured_at")
    path_id = models.IntegerField()
    measured_at = models.DateTimeField()
    test = models.TextField()
    outcome = models.TextField()
    request_bytes = models.IntegerField()
    response_bytes = models.IntegerField()
    transactions = models.SmallIntegerField(db_default=0)
    errors = models.SmallIntegerField(db_default=0)
    minimum_ms = RealField(null=True)
    median_ms = RealField(null=True)
    p95_ms = RealField(null=True)
    p99_ms = RealField(null=True)
    maximum_ms = RealField(null=True)
    transactions_per_s = models.FloatField(null=True)
    payload_bytes_per_s = models.FloatField(null=True, help_text="requests and responses together")
    connect_ms = RealField(null=True, help_text="TCP handshake")
    setup_ms = RealField(null=True, help_text="exchange of the key")
    first_ms = RealField(null=True, help_text="first transaction of the connection, in no other figure")
    after_idle_ms = RealField(null=True, help_text="first transaction after idle, in no other figure")
    retransmits = models.IntegerField(null=True, help_text="segments of requests")
    far_retransmits = models.IntegerField(null=True, help_text="segments of responses")
    during_test = models.BooleanField()
    address = models.GenericIPAddressField(null=True)
    detail = models.TextField(null=True)
    latencies_ms = ArrayField(RealField(), help_text="in their order")

    class Meta:
        db_table = "request_response"
        indexes = [models.Index(fields=["measured_at"], name="request_response_by_time")]


class CapacityResult(models.Model):
    """Estimate of bottleneck capacity, as `probes.capacity.spec.CapacityRun`.

    Unless `verdict` is `measured`, `capacity_bps` is null and `capacity_low_bps` a lower bound.
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

"""Aggregate tests: results of members, and of each test."""

from __future__ import annotations

from django.db import models

from monitor.archive.fields import RealField


class AggregateMember(models.Model):
    """Result of a member, with the columns of `ThroughputTest`. It is no throughput test of its path: members load it
    together."""

    pk = models.CompositePrimaryKey("path_id", "measured_at")
    path_id = models.IntegerField()
    measured_at = models.DateTimeField()
    began_at = models.DateTimeField(help_text="begin of its data, by the sender's clock, corrected where it was wrong")
    test = models.TextField()
    slot_id = models.BigIntegerField(null=True)
    outcome = models.TextField()
    streams = models.SmallIntegerField()
    duration_s = models.FloatField(null=True)
    throughput_bps = models.FloatField(null=True, help_text="of the whole test, without the tool's omitted seconds")
    protocol = models.TextField()
    asked_bps = models.FloatField(null=True)
    sent_bytes = models.BigIntegerField(null=True)
    received_bytes = models.BigIntegerField(null=True)
    retransmits = models.IntegerField(null=True)
    rtt_mean_ms = RealField(null=True)
    congestion_control = models.TextField(null=True)
    tool = models.TextField(null=True)
    detail = models.TextField(null=True)
    transfer = models.JSONField(null=True, help_text="as probes.transfers.spec.Transfer")

    class Meta:
        db_table = "aggregate_member"
        indexes = [
            models.Index(fields=["measured_at"], name="aggregate_member_by_time"),
            models.Index(fields=["slot_id"], name="aggregate_member_by_slot"),
        ]


class AggregateRun(models.Model):
    """Result of an aggregate test, recomputed until `is_final`.

    `sum_bps` is null unless all members measured at the same time; else `partial_sum_bps` sums the simultaneous
    members.
    """

    slot_id = models.BigIntegerField(primary_key=True, help_text="of its first member")
    test = models.TextField()
    shape = models.TextField()
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    state = models.TextField(help_text="as monitor.analysis.aggregate.AggregateState")
    is_final = models.BooleanField()
    members = models.SmallIntegerField()
    measured = models.SmallIntegerField(help_text="members with a rate")
    sum_bps = models.FloatField(null=True)
    partial_sum_bps = models.FloatField(null=True)
    fairness = models.FloatField(null=True, help_text="Jain's index of the members measured; null for fewer than two")
    common_began_at = models.DateTimeField(null=True)
    common_s = models.FloatField(null=True, help_text="time in which all those sent")
    start_spread_s = models.FloatField(null=True, help_text="from the first member's begin to the last's")
    path_ids = models.JSONField(help_text="of its members")
    details = models.JSONField(help_text="as monitor.archive.queries.throughput.aggregates.AggregateDetails")
    computed_at = models.DateTimeField()

    class Meta:
        db_table = "aggregate_run"
        indexes = [models.Index(fields=["starts_at"], name="aggregate_run_by_time")]

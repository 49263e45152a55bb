from __future__ import annotations

from django.db import models

from monitor.archive.fields import MultirangeField


class ReceivedBatch(models.Model):
    site = models.ForeignKey("mesh.Site", on_delete=models.PROTECT, related_name="+", db_index=False)
    spool = models.TextField()
    number = models.BigIntegerField()
    received_at = models.DateTimeField()
    sent_at = models.DateTimeField()
    agent_version = models.TextField()
    accepted = models.IntegerField()
    refused = models.IntegerField()
    queued = models.IntegerField(help_text="results left in the agent's spool")
    dropped = models.IntegerField(help_text="results dropped by the agent's spool, total")
    measured_from = models.DateTimeField(null=True, help_text="earliest start of its measurements; null without any")

    class Meta:
        db_table = "received_batch"
        constraints = [models.UniqueConstraint(fields=["site", "spool", "number"], name="batch_stored_once")]
        indexes = [models.Index(fields=["site", "-received_at"], name="batch_by_site_and_time")]


class RefusedResult(models.Model):
    """Rejected result, with the reason sent to the agent."""

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
    """Cycles of a path's test on a UTC day with this outcome; several outcomes have several rows.

    Cycle number: time since the epoch divided by `every_s`.
    """

    pk = models.CompositePrimaryKey("path_id", "test", "every_s", "day", "outcome")
    path_id = models.IntegerField()
    test = models.TextField()
    every_s = models.IntegerField()
    day = models.DateField()
    outcome = models.TextField()
    cycles = MultirangeField(help_text="cycle numbers")

    class Meta:
        db_table = "cycle_day"


class AgentGap(models.Model):
    """Why a site's cycles scheduled in [since, until) have no result."""

    site = models.ForeignKey("mesh.Site", on_delete=models.PROTECT, related_name="+", db_index=False)
    test = models.TextField(blank=True, help_text="empty for all tests")
    every_s = models.IntegerField(default=0, help_text="0 for all periods")
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
    """Period in which a site's agent accounted for all cycles."""

    site = models.OneToOneField("mesh.Site", on_delete=models.PROTECT, primary_key=True, related_name="+")
    since = models.DateTimeField()
    until = models.DateTimeField()

    class Meta:
        db_table = "agent_account"


class DeliveredDay(models.Model):
    """Sequence numbers received for results of a UTC day, rejected results included. Never deleted."""

    site = models.ForeignKey("mesh.Site", on_delete=models.PROTECT, related_name="+", db_index=False)
    spool = models.TextField()
    day = models.DateField()
    sequences = MultirangeField(help_text="sequence numbers of the agent's spool")

    class Meta:
        db_table = "delivered_day"
        constraints = [models.UniqueConstraint(fields=["site", "spool", "day"], name="one_row_a_spool_and_day")]

"""Records of deliveries: batches, refused results, and the counts that account for every result."""

from __future__ import annotations

from django.db import models

from monitor.archive.fields import MultirangeField


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
    dropped = models.IntegerField(help_text="results dropped by the agent's spool, total")
    measured_from = models.DateTimeField(null=True, help_text="earliest start of its measurements; null without any")

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
    for several packet sizes, is in several rows; `monitor.archive.queries.operation.ledger` decides which counts.
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
    """Reason why cycles scheduled in [since, until) at a site have no result: the cycles of a test with this schedule,
    or of all tests."""

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
    """Period for which a site's agent has accounted for all its cycles: from the first that it reported on."""

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
    sequences = MultirangeField(help_text="sequence numbers of the agent's spool")

    class Meta:
        db_table = "delivered_day"
        constraints = [models.UniqueConstraint(fields=["site", "spool", "day"], name="one_row_a_spool_and_day")]

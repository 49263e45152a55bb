"""Slots of throughput tests, and their reservations of hosts and uplinks."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import RangeOperators
from django.db import models
from django.db.models import Q, QuerySet

from monitor.mesh.models.measurements import Measurement
from monitor.mesh.models.places import Host, Uplink
from probes.contract import Outcome


class SlotQuerySet(QuerySet["Slot", "Slot"]):
    def of_site(self, site_id: int) -> Self:
        """Slots with a host of this site as client or server."""
        return self.filter(Q(measurement__path__source__site=site_id) | Q(measurement__path__destination__site=site_id))

    def to_come(self, since: datetime, until: datetime) -> Self:
        """Slots not ended at `since`, without outcome, that start before `until`."""
        return self.filter(outcome=None, ends_at__gt=since, starts_at__lt=until)


class Slot(models.Model):
    """Scheduled execution of a test; `outcome` is null until it ended.

    Members of an aggregate test have a slot each; the first reserves all hosts and uplinks. The connecting end reports
    the outcome, the listening end `served`.
    """

    measurement = models.ForeignKey(Measurement, on_delete=models.PROTECT, related_name="slots")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    outcome = models.TextField(null=True, choices=[(outcome.value, outcome.value) for outcome in Outcome])
    detail = models.TextField(blank=True)
    served = models.JSONField(null=True, help_text="as probes.transfers.spec.ServerReport; null without a report")
    carried_bytes = models.BigIntegerField(null=True, help_text="bytes sent by the test; null without figures")

    lead = models.ForeignKey(
        "self",
        on_delete=models.CASCADE,
        related_name="members",
        null=True,
        db_constraint=False,
        db_index=False,
        help_text="of an aggregate test's other members: the slot of its first, which has the reservations",
    )

    objects = SlotQuerySet.as_manager()

    class Meta:
        db_table = "slot"
        constraints = [
            models.CheckConstraint(condition=models.Q(ends_at__gt=models.F("starts_at")), name="slot_ends_after_start")
        ]
        indexes = [
            models.Index(fields=["measurement", "starts_at"], name="slot_by_measurement"),
            models.Index(fields=["ends_at"], condition=models.Q(outcome__isnull=True), name="open_slot_by_end"),
            models.Index(fields=["lead"], condition=models.Q(lead__isnull=False), name="slot_by_lead"),
        ]

    @property
    def parameters(self) -> dict[str, Any]:
        """Spec fields: as requested, else the test's."""
        request: SlotRequest | None = getattr(self, "request", None)
        parameters: dict[str, Any] = self.measurement.test.parameters if request is None else request.parameters
        return parameters


class SlotRequest(models.Model):
    slot = models.OneToOneField(Slot, on_delete=models.CASCADE, related_name="request", primary_key=True)
    asked_at = models.DateTimeField()
    asked_by = models.TextField()
    parameters = models.JSONField()

    class Meta:
        db_table = "slot_request"


def _one_at_a_time(column: str, name: str) -> ExclusionConstraint:
    """Rows with the same id may not overlap; range ids need no extension."""
    return ExclusionConstraint(
        name=name,
        expressions=[
            (models.Func(column, column, models.Value("[]"), function="int8range"), RangeOperators.OVERLAPS),
            (models.Func("starts_at", "ends_at", function="tstzrange"), RangeOperators.OVERLAPS),
        ],
    )


class SlotHost(models.Model):
    """Reservation of a host for a slot, without overlaps."""

    slot = models.ForeignKey(Slot, on_delete=models.CASCADE, related_name="hosts")
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="+")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()

    class Meta:
        db_table = "slot_host"
        constraints = [_one_at_a_time("host", "one_slot_per_host_at_a_time")]
        indexes = [models.Index(fields=["ends_at"], name="slot_host_by_end")]


class SlotUplink(models.Model):
    slot = models.ForeignKey(Slot, on_delete=models.CASCADE, related_name="uplinks")
    uplink = models.ForeignKey(Uplink, on_delete=models.PROTECT, related_name="+")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()

    class Meta:
        db_table = "slot_uplink"
        constraints = [_one_at_a_time("uplink", "one_slot_per_uplink_at_a_time")]

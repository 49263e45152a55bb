"""Tests, their measurements on paths, and schedule periods."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.db import models

from monitor.mesh.models.places import RETIRED_AT_HELP, InUseQuerySet, Path


class KindName(StrEnum):
    """Kinds that pages, alerts and reports use by name."""

    PING = "ping"
    TCP_PING = "tcp-ping"
    STAMP = "stamp"
    THROUGHPUT = "throughput"
    REQUEST_RESPONSE = "request-response"

    @property
    def alternatives(self) -> tuple[KindName, ...]:
        """This kind, and kinds that stand in for it."""
        return (KindName.PING, KindName.TCP_PING, KindName.STAMP) if self is KindName.PING else (self,)


class MeasurementQuerySet(InUseQuerySet["Measurement"]):
    def with_hosts(self) -> Self:
        """Load test, path, hosts and sites in the same query."""
        return self.select_related("test", "path__source__site", "path__destination__site")


class Test(models.Model):
    """Kind of measurement with its schedule; `parameters` are the spec's fields."""

    name = models.TextField(unique=True)
    kind = models.TextField(help_text="Name of its kind in probes.kinds.")
    every_s = models.PositiveIntegerField()
    parameters = models.JSONField(default=dict)
    priority = models.SmallIntegerField(db_default=0, help_text="of throughput tests: higher goes first")
    slip_s = models.PositiveIntegerField(null=True, help_text="maximum delay of its slots; null: within the period")
    retired_at = models.DateTimeField(null=True, help_text=RETIRED_AT_HELP)

    objects = InUseQuerySet.as_manager()

    class Meta:
        db_table = "test"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Measurement(models.Model):
    """Test on a path, first started at `started_at`."""

    path = models.ForeignKey(Path, on_delete=models.PROTECT, related_name="measurements")
    test = models.ForeignKey(Test, on_delete=models.PROTECT, related_name="measurements")
    started_at = models.DateTimeField()
    retired_at = models.DateTimeField(null=True, help_text=RETIRED_AT_HELP)

    objects = MeasurementQuerySet.as_manager()

    class Meta:
        db_table = "measurement"
        constraints = [models.UniqueConstraint(fields=["path", "test"], name="one_measurement_per_path_and_test")]

    def __str__(self) -> str:
        return f"{self.path}, {self.test}"


class MeasurementPeriod(models.Model):
    """Period of a measurement on the same schedule, so that past schedules can be counted.

    `packet_bytes` are sizes of its path's bursts, if any.
    """

    measurement = models.ForeignKey(Measurement, on_delete=models.PROTECT, related_name="periods")
    every_s = models.PositiveIntegerField()
    packet_bytes = ArrayField(models.IntegerField(), default=list)
    pattern = models.TextField(default="burst", db_default="burst", help_text="of pings: burst or even")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, help_text="Null while active.")

    class Meta:
        db_table = "measurement_period"
        constraints = [
            models.UniqueConstraint(
                fields=["measurement"], condition=models.Q(ended_at__isnull=True), name="one_period_at_a_time"
            )
        ]

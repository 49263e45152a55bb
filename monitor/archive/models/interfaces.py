"""Interface readings (a hypertable with TimescaleDB) and weeks, without foreign keys to the mesh."""

from __future__ import annotations

from django.db import models

from monitor.archive.fields import RealField


class InterfaceResult(models.Model):
    """Use of an interface since the previous reading, as `probes.interface.spec.InterfaceRun`.

    Figures are null at first or after a counter reset; `router` is null for the source.
    """

    pk = models.CompositePrimaryKey("path_id", "measured_at", "test")
    path_id = models.IntegerField()
    measured_at = models.DateTimeField()
    test = models.TextField()
    outcome = models.TextField()
    router = models.TextField(null=True)
    interface = models.TextField(null=True)
    alias = models.TextField(null=True)
    speed_bps = models.FloatField(null=True)
    interval_s = RealField(null=True)
    in_bps = models.FloatField(null=True, help_text="received by the interface, with link headers")
    out_bps = models.FloatField(null=True, help_text="sent by the interface, with link headers")
    in_errors = models.BigIntegerField(null=True, help_text="packets")
    out_errors = models.BigIntegerField(null=True, help_text="packets")
    in_drops = models.BigIntegerField(null=True, help_text="packets")
    out_drops = models.BigIntegerField(null=True, help_text="packets")
    during_test = models.BooleanField()
    detail = models.TextField(null=True)

    class Meta:
        db_table = "interface_result"
        indexes = [models.Index(fields=["measured_at"], name="interface_result_by_time")]


class InterfaceWeek(models.Model):
    """Week (UTC, from Monday) of an interface: 95th percentiles of five-minute averages outside our own tests; null
    until summarized."""

    pk = models.CompositePrimaryKey("path_id", "test", "week")
    path_id = models.IntegerField()
    test = models.TextField()
    week = models.DateField()
    is_dirty = models.BooleanField()
    five_minutes = models.SmallIntegerField(null=True, help_text="averages that the percentiles are of, of 2,016")
    in_p95_bps = models.FloatField(null=True)
    out_p95_bps = models.FloatField(null=True)
    speed_bps = models.FloatField(null=True, help_text="newest speed of the interface in the week")

    class Meta:
        db_table = "interface_week"
        indexes = [models.Index(fields=["week"], condition=models.Q(is_dirty=True), name="interface_week_dirty")]

"""Throughput sweeps: grids of requested tests."""

from __future__ import annotations

from django.db import models


class ThroughputSweep(models.Model):
    """Named grid of on-demand tests; `schedule` is a [[sweep]] in mesh.toml."""

    path_id = models.IntegerField()
    name = models.TextField()
    asked_at = models.DateTimeField()
    asked_by = models.TextField()
    schedule = models.TextField(null=True, help_text="name of the [[sweep]] table; null if a user asked for it")
    problem = models.TextField(null=True, help_text="why the next test of a schedule could not be requested")

    class Meta:
        db_table = "throughput_sweep"
        indexes = [
            models.Index(
                fields=["path_id", "-asked_at"],
                condition=models.Q(schedule__isnull=False),
                name="scheduled_sweep_by_path",
            )
        ]


class SweepCell(models.Model):
    """Cell of a sweep; `slot_id` is null until requested. Cells outlive slots and raw tests."""

    sweep = models.ForeignKey(ThroughputSweep, on_delete=models.CASCADE, related_name="cells", db_index=False)
    place = models.SmallIntegerField(help_text="rank in the order of running")
    parameters = models.JSONField(help_text="as monitor.mesh.schedule.on_demand.Settings")
    slot_id = models.BigIntegerField(null=True)
    asked_at = models.DateTimeField(null=True, help_text="of the test; null for a sweep that a user asked for")
    outcome = models.TextField(null=True)
    detail = models.TextField(null=True)
    measured_at = models.DateTimeField(null=True)
    throughput_bps = models.FloatField(null=True)
    idle_rtt_ms = models.FloatField(null=True)
    segment_bytes = models.IntegerField(null=True, help_text="payload of the segments that were sent")
    verdict = models.TextField(null=True)
    sentence = models.TextField(null=True)

    class Meta:
        db_table = "throughput_sweep_cell"
        constraints = [models.UniqueConstraint(fields=["sweep", "place"], name="one_cell_a_place")]

"""Incidents: one cause, from opening to closing, with all the paths it explains.

States change only by conditional updates in `monitor.alerts.incidents`; the constraint here is what makes a second
opening of the same cause impossible.
"""

from __future__ import annotations

from django.db import models


class Incident(models.Model):
    """One cause. `rule` and `cause` name it: for the loss rule the cause is the unordered pair of hosts."""

    rule = models.TextField()
    cause = models.TextField()
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    summary = models.TextField()

    class Meta:
        db_table = "incident"
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "cause"], condition=models.Q(closed_at__isnull=True), name="one_open_incident_per_cause"
            )
        ]
        indexes = [models.Index(fields=["-opened_at"], name="incident_by_time")]


class IncidentPath(models.Model):
    """A path that an incident explains, with the evidence at the time when it was added."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="paths")
    path = models.ForeignKey("mesh.Path", on_delete=models.PROTECT, related_name="+")
    added_at = models.DateTimeField()
    window_s = models.IntegerField()
    sent = models.IntegerField()
    lost = models.IntegerField()
    loss_lower_ratio = models.FloatField(help_text="lower 95% bound of the pooled loss")
    threshold_ratio = models.FloatField()

    class Meta:
        db_table = "incident_path"
        constraints = [models.UniqueConstraint(fields=["incident", "path"], name="path_once_per_incident")]

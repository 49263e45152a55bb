"""Incidents: one cause, from opening to closing, with all the paths it explains, and who was told.

States change only by conditional updates in `monitor.alerts.incidents` and `monitor.alerts.notify`; the constraints
here are what makes a second opening of the same cause, and a second notification of the same change, impossible.
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
    closing = models.TextField(blank=True, help_text="Why it was closed; empty while it is open.")

    class Meta:
        db_table = "incident"
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "cause"], condition=models.Q(closed_at__isnull=True), name="one_open_incident_per_cause"
            ),
            models.CheckConstraint(
                condition=models.Q(closed_at__isnull=True) | models.Q(closed_at__gte=models.F("opened_at")),
                name="incident_closes_after_it_opens",
            ),
        ]
        indexes = [models.Index(fields=["-opened_at"], name="incident_by_time")]

    def __str__(self) -> str:
        return self.summary

    @property
    def is_open(self) -> bool:
        return self.closed_at is None


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


class Change(models.TextChoices):
    """What of an incident is notified."""

    OPENED = "opened"
    CLOSED = "closed"


class Notification(models.Model):
    """That one channel must be told of one change. Written in the transaction of the change, sent afterwards.

    `channel` names a URL of SOUNDINGS_NOTIFY_URLS without its secrets. It is due from `due_at` on while `sent_at` is
    null and attempts are left; an attempt moves `due_at` into the future before it sends, so that no other evaluator
    sends the same.
    """

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="notifications")
    change = models.TextField(choices=Change)
    channel = models.TextField()
    due_at = models.DateTimeField()
    attempts = models.SmallIntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    problem = models.TextField(blank=True, help_text="Why the last attempt failed.")

    class Meta:
        db_table = "notification"
        constraints = [
            models.UniqueConstraint(fields=["incident", "change", "channel"], name="change_notified_once_per_channel")
        ]
        indexes = [
            models.Index(fields=["due_at"], condition=models.Q(sent_at__isnull=True), name="notification_unsent")
        ]

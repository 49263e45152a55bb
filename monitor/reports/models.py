"""Weekly reports, subscribers by mail, and deliveries.

Deliveries change only by conditional updates in `monitor.reports.sending`; a constraint rules out doubles.
"""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models


class WeeklyReport(models.Model):
    """A weekly report of the whole mesh, by its ISO week, 2026-W47."""

    week = models.TextField(primary_key=True)
    written_at = models.DateTimeField()

    class Meta:
        db_table = "weekly_report"

    def __str__(self) -> str:
        return self.week


class WeeklyReportFile(models.Model):
    """A weekly report in a format: `.html` or `.pdf`."""

    report = models.ForeignKey(
        WeeklyReport, on_delete=models.CASCADE, related_name="files", db_column="week", db_index=False
    )
    suffix = models.TextField()
    content = models.BinaryField()

    class Meta:
        db_table = "weekly_report_file"
        constraints = [models.UniqueConstraint(fields=["report", "suffix"], name="weekly_report_once")]

    def __str__(self) -> str:
        return f"{self.report_id}{self.suffix}"


class Subscriber(models.Model):
    """A subscription to a scope's weekly report, at `weekday` (0 is Monday) and `hour` in its own time zone.

    `token` is the secret of the unsubscribe link.
    """

    recipient = models.EmailField()
    scope = models.TextField(help_text="mesh, site or group")
    name = models.TextField(blank=True, help_text="of the site or group; empty for the mesh")
    format = models.TextField(help_text="html or pdf")
    numbers = models.TextField(help_text="language of numbers, as monitor.reports.numbers")
    zone = models.TextField(help_text="time zone, such as Europe/Zurich")
    weekday = models.SmallIntegerField(validators=[MinValueValidator(0), MaxValueValidator(6)])
    hour = models.SmallIntegerField(validators=[MinValueValidator(0), MaxValueValidator(23)])
    token = models.TextField(unique=True)
    subscribed_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, help_text="null while active")

    class Meta:
        db_table = "report_subscriber"
        ordering = ["recipient", "scope", "name"]
        constraints = [
            models.UniqueConstraint(
                fields=["recipient", "scope", "name"],
                condition=models.Q(ended_at__isnull=True),
                name="one_subscription_of_a_scope",
            ),
            models.CheckConstraint(
                condition=models.Q(weekday__range=(0, 6), hour__range=(0, 23)), name="subscription_has_an_hour"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.recipient}: {self.scope}{f' {self.name}' if self.name else ''}"


class Delivery(models.Model):
    """The report of a period to a subscriber, due from `due_at`.

    `handed_at` is set before a mail is handed over; without `sent_at` it is then never retried: it may have been sent.
    """

    subscriber = models.ForeignKey(Subscriber, on_delete=models.CASCADE, related_name="deliveries")
    period = models.TextField(help_text="2026-W47, or two days: 2026-11-01_2026-11-30")
    due_at = models.DateTimeField()
    attempts = models.SmallIntegerField(default=0)
    handed_at = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    problem = models.TextField(blank=True, help_text="Why the last attempt failed.")

    class Meta:
        db_table = "report_delivery"
        constraints = [models.UniqueConstraint(fields=["subscriber", "period"], name="report_sent_once")]
        indexes = [
            models.Index(fields=["due_at"], condition=models.Q(handed_at__isnull=True), name="report_delivery_unsent")
        ]

"""Newest answers of other centres."""

from __future__ import annotations

from django.db import models


class CentreAnswer(models.Model):
    """The newest answer of a centre; its summary is kept when it does not answer."""

    name = models.TextField(primary_key=True, help_text="as in SOUNDINGS_OTHER_CENTRES")
    url = models.TextField()
    asked_at = models.DateTimeField(help_text="the last request")
    problem = models.TextField(default="", help_text="why that was not answered; empty if it was")
    answered_at = models.DateTimeField(null=True, help_text="when the summary was requested; null before the first")
    summary = models.JSONField(null=True, help_text="as `GET /api/v1/centre` answers")

    class Meta:
        db_table = "centre_answer"

    def __str__(self) -> str:
        return self.name

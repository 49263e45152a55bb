"""Agents' tokens and enrolment codes (SHA-256 digests), health, clock errors."""

from __future__ import annotations

import secrets
from datetime import datetime

from django.db import models

from monitor.accounts.models import token_digest


class AgentToken(models.Model):
    """Bound to an instance and its latest start (`probes.site.identity`), null before first use.

    `refused_at` and `refused_from` are of another instance's newest request.
    """

    site = models.ForeignKey("mesh.Site", on_delete=models.PROTECT, related_name="agent_tokens")
    digest = models.TextField(unique=True)
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    instance = models.TextField(null=True)
    instance_start = models.BigIntegerField(null=True)
    held_since = models.DateTimeField(null=True, help_text="time since which that start has held it")
    refused_at = models.DateTimeField(null=True)
    refused_from = models.TextField(null=True, help_text="its address, null if unknown")

    class Meta:
        db_table = "agent_token"


class EnrolmentCode(models.Model):
    """Exchanged for a token of `site` until it expires."""

    site = models.ForeignKey("mesh.Site", on_delete=models.PROTECT, related_name="enrolment_codes")
    digest = models.TextField(unique=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    replaces_tokens = models.BooleanField(help_text="enrolling with it revokes the site's earlier tokens")

    class Meta:
        db_table = "enrolment_code"


class AgentHealth(models.Model):
    """Health of a site's agent at its newest accepted delivery."""

    site = models.OneToOneField("mesh.Site", on_delete=models.PROTECT, primary_key=True, related_name="+")
    accepted_at = models.DateTimeField()
    agent_version = models.TextField()
    queued = models.IntegerField(help_text="results left in the agent's spool")
    dropped = models.IntegerField(help_text="results dropped by the agent's spool, total")
    health = models.JSONField(null=True, help_text="as probes.site.health.Health; null if not reported")
    drops_past = models.JSONField(
        default=list,
        db_default=[],
        help_text="last hour of [seconds since the epoch, packets dropped by its interfaces]",
    )

    class Meta:
        db_table = "agent_health"


class ClockOffPeriod(models.Model):
    """Inclusive period, by the site's clock, when that clock was up to `offset_s` ahead of the centre's."""

    site = models.ForeignKey("mesh.Site", on_delete=models.PROTECT, related_name="+")
    since = models.DateTimeField()
    until = models.DateTimeField()
    offset_s = models.FloatField()

    class Meta:
        db_table = "clock_off_period"
        indexes = [models.Index(fields=["site", "until"], name="clock_off_by_site_and_end")]


def issue_token(site_id: int, now: datetime) -> str:
    """Create a token for a site's agent; it cannot be read again."""
    token = secrets.token_urlsafe(32)
    AgentToken.objects.create(site_id=site_id, digest=token_digest(token), created_at=now)
    return token

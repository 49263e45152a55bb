"""Agents as the centre knows them: tokens, enrolment codes, health at their last delivery, periods of clock error.

Of tokens and codes only SHA-256 digests are stored.
"""

from __future__ import annotations

import secrets
from datetime import datetime

from django.db import models

from monitor.accounts.models import token_digest


class AgentToken(models.Model):
    """That whoever holds the token with this digest is the agent of `site`: the first instance that shows it, and of
    that its latest start (`probes.site.identity`). Null before anybody did; `refused_at` and `refused_from` are of the
    newest request of any other."""

    site = models.ForeignKey("mesh.Site", on_delete=models.PROTECT, related_name="agent_tokens")
    digest = models.TextField(unique=True)
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    instance = models.TextField(null=True)
    instance_start = models.BigIntegerField(null=True)
    held_since = models.DateTimeField(null=True, help_text="since when that start has held it")
    refused_at = models.DateTimeField(null=True)
    refused_from = models.TextField(null=True, help_text="its address, as far as it is known")

    class Meta:
        db_table = "agent_token"


class EnrolmentCode(models.Model):
    """That whoever shows the code with this digest, once and in time, gets a token of `site`."""

    site = models.ForeignKey("mesh.Site", on_delete=models.PROTECT, related_name="enrolment_codes")
    digest = models.TextField(unique=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    replaces_tokens = models.BooleanField(help_text="with it the site's earlier tokens are revoked")

    class Meta:
        db_table = "enrolment_code"


class AgentHealth(models.Model):
    """How a site's agent was at its newest delivery that was accepted."""

    site = models.OneToOneField("mesh.Site", on_delete=models.PROTECT, primary_key=True, related_name="+")
    accepted_at = models.DateTimeField()
    agent_version = models.TextField()
    queued = models.IntegerField(help_text="results left in the agent's spool")
    dropped = models.IntegerField(help_text="results that the agent's spool had to drop, ever")
    health = models.JSONField(null=True, help_text="as probes.site.health.Health; null where the agent told none")
    drops_past = models.JSONField(
        default=list,
        db_default=[],
        help_text="of the last hour: [seconds since the epoch, packets its interfaces dropped]",
    )

    class Meta:
        db_table = "agent_health"


class ClockOffPeriod(models.Model):
    """That results of a site which began from `since` to `until`, both included and by its own clock, were measured
    with that clock off: ahead of the centre's by `offset_s` at most."""

    site = models.ForeignKey("mesh.Site", on_delete=models.PROTECT, related_name="+")
    since = models.DateTimeField()
    until = models.DateTimeField()
    offset_s = models.FloatField()

    class Meta:
        db_table = "clock_off_period"
        indexes = [models.Index(fields=["site", "until"], name="clock_off_by_site_and_end")]


def issue_token(site_id: int, now: datetime) -> str:
    """Make a new token for a site's agent and return it; it cannot be read again afterwards."""
    token = secrets.token_urlsafe(32)
    AgentToken.objects.create(site_id=site_id, digest=token_digest(token), created_at=now)
    return token

"""Agents' tokens. Only their SHA-256 digests are stored."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime

from django.db import models


class AgentToken(models.Model):
    """That whoever holds the token with this digest is the agent of `site`."""

    site = models.ForeignKey("mesh.Site", on_delete=models.PROTECT, related_name="agent_tokens")
    digest = models.TextField(unique=True)
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "agent_token"


def token_digest(token: str) -> str:
    """Hex SHA-256 of a token. Tokens are 256 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(token.encode()).hexdigest()


def issue_token(site_id: int, now: datetime) -> str:
    """Make a new token for a site's agent and return it; it cannot be read again afterwards."""
    token = secrets.token_urlsafe(32)
    AgentToken.objects.create(site_id=site_id, digest=token_digest(token), created_at=now)
    return token

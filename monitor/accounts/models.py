"""API tokens of users, stored as SHA-256 digests, and the settings of their pages."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime

from django.conf import settings
from django.db import models


class UserToken(models.Model):
    """Token of a user's program, with the user's read access; with `may_operate` also that to operate."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tokens")
    name = models.TextField(help_text="its purpose, as given by its owner")
    digest = models.TextField(unique=True)
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    may_operate = models.BooleanField(default=False, db_default=False, help_text="acknowledge, silence, comment")

    class Meta:
        db_table = "user_token"


class UserPreferences(models.Model):
    """Theme and time zone of a user's pages; `monitor.accounts.preferences` reads and writes them."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="preferences"
    )
    theme = models.TextField(help_text="system, light or dark")
    time_zone = models.TextField(help_text="IANA name, as Europe/Zurich")

    class Meta:
        db_table = "user_preferences"


def token_digest(token: str) -> str:
    """Hex SHA-256 of a token. Tokens are 256 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(token.encode()).hexdigest()


def issue_user_token(user_id: int, name: str, now: datetime, *, may_operate: bool = False) -> str:
    """Create a token for a user's program and return it; it cannot be read again."""
    token = secrets.token_urlsafe(32)
    UserToken.objects.create(
        user_id=user_id, name=name, digest=token_digest(token), created_at=now, may_operate=may_operate
    )
    return token

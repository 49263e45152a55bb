"""Users' API tokens (as SHA-256 digests), read limits, single sign-on, shared links, preferences."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime

from django.conf import settings
from django.db import models


class UserToken(models.Model):
    """Reads as its user; operates with `may_operate`."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tokens")
    name = models.TextField(help_text="its purpose, as given by its owner")
    digest = models.TextField(unique=True)
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    may_operate = models.BooleanField(default=False, db_default=False, help_text="acknowledge, silence, comment")

    class Meta:
        db_table = "user_token"


class ReadLimit(models.Model):
    """Exactly one of `user`, `role` and `token` is set. Without sites and groups, nothing may be read."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="read_limit"
    )
    role = models.TextField(null=True, unique=True, help_text="as monitor.accounts.roles.Role")
    token = models.OneToOneField(UserToken, null=True, on_delete=models.CASCADE, related_name="read_limit")
    sites = models.ManyToManyField("mesh.Site", related_name="+", db_table="read_limit_sites")
    groups = models.ManyToManyField("mesh.Group", related_name="+", db_table="read_limit_groups")

    class Meta:
        db_table = "read_limit"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(user__isnull=False, role=None, token=None)
                | models.Q(user=None, role__isnull=False, token=None)
                | models.Q(user=None, role=None, token__isnull=False),
                name="read_limit_of_one_reader",
            )
        ]


class SingleSignOnIdentity(models.Model):
    """A user's identity at a provider; its subject never changes."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="single_sign_on"
    )
    issuer = models.TextField()
    subject = models.TextField(help_text="the claim sub, which the issuer never gives to another user")

    class Meta:
        db_table = "single_sign_on_identity"
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="one_account_of_a_subject")]


class SharedLink(models.Model):
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="shared_links")
    digest = models.TextField(unique=True)
    address = models.TextField(help_text="of the page, with its query")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "shared_link"


class UserPreferences(models.Model):
    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="preferences"
    )
    theme = models.TextField(help_text="system, light or dark")
    time_zone = models.TextField(help_text="IANA name, as Europe/Zurich")

    class Meta:
        db_table = "user_preferences"


def token_digest(token: str) -> str:
    """Hex SHA-256 of a token."""
    # Tokens are 256 random bits, so a slow hash would add nothing.
    return hashlib.sha256(token.encode()).hexdigest()


def issue_user_token(user_id: int, name: str, now: datetime, *, may_operate: bool = False) -> str:
    """Create a token for a user's program; it cannot be read again."""
    token = secrets.token_urlsafe(32)
    UserToken.objects.create(
        user_id=user_id, name=name, digest=token_digest(token), created_at=now, may_operate=may_operate
    )
    return token

"""Read SOUNDINGS_OIDC_* before Django is set up.

Raises `ImproperlyConfigured`: no process starts with settings that let nobody log in.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from monitor import environment

LOOPBACK = ("localhost", "127.0.0.1", "::1")
LONGEST_SESSION_HOURS = 24 * 14
# As monitor.accounts.roles.Role, the highest first.
ROLES = ("operator", "viewer")


@dataclass(frozen=True, slots=True)
class GroupRole:
    """Role of a provider's group, limited to `mesh_groups` if any."""

    group: str
    role: str
    mesh_groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Grant:
    role: str | None  # None for no access
    mesh_groups: frozenset[str] | None = None  # None for all sites


@dataclass(frozen=True, slots=True)
class OidcSettings:
    issuer: str
    client_id: str
    client_secret: str
    label: str
    scopes: str
    user_claim: str
    groups_claim: str
    roles: tuple[GroupRole, ...]
    default_role: str | None
    session_hours: int

    @property
    def origin(self) -> str:
        parts = urlsplit(self.issuer)
        return f"{parts.scheme}://{parts.netloc}"

    def grant(self, groups: Collection[str], existing: frozenset[str]) -> Grant:
        """Highest role of these groups, and the union of its entries' limits; an entry without limits is the widest.

        Entries count only while the mesh has one of their groups (`existing`).
        """
        entries = [entry for entry in self.roles if entry.group in groups]
        for role in ROLES:
            of_role = [entry.mesh_groups for entry in entries if entry.role == role]
            limits = [limit & existing for limit in of_role if not limit or limit & existing]
            if limits:
                return Grant(role, frozenset().union(*limits) if all(limits) else None)
        # The default would be wider than a limit whose groups are gone.
        return Grant(None if entries else self.default_role)


def read() -> OidcSettings | None:
    """Read the settings, None without single sign-on. Raises `ImproperlyConfigured`."""
    issuer = environment.read("SOUNDINGS_OIDC_ISSUER")
    if not issuer:
        return None
    client_id = environment.read("SOUNDINGS_OIDC_CLIENT_ID")
    client_secret = environment.read("SOUNDINGS_OIDC_CLIENT_SECRET")
    for name, value in (("CLIENT_ID", client_id), ("CLIENT_SECRET", client_secret)):
        if not value:
            raise ImproperlyConfigured(
                f"SOUNDINGS_OIDC_{name} is not set; register Soundings as a confidential client at {issuer}, and write "
                f"its value here or its file into SOUNDINGS_OIDC_{name}_FILE"
            )
    default = environment.choice("SOUNDINGS_OIDC_DEFAULT_ROLE", ("none", "viewer"))
    return OidcSettings(
        issuer=_checked_issuer(issuer),
        client_id=client_id,
        client_secret=client_secret,
        label=environment.read("SOUNDINGS_OIDC_LABEL", "Log in with single sign-on"),
        scopes=_scopes(),
        user_claim=environment.read("SOUNDINGS_OIDC_USER_CLAIM", "preferred_username"),
        groups_claim=environment.read("SOUNDINGS_OIDC_GROUPS_CLAIM", "groups"),
        roles=tuple(_group_role(word) for word in environment.words("SOUNDINGS_OIDC_ROLES", "")),
        default_role=None if default == "none" else default,
        session_hours=_session_hours(),
    )


def _checked_issuer(issuer: str) -> str:
    parts = urlsplit(issuer)
    is_closed = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
    if not is_closed or not parts.hostname or parts.query or parts.fragment:
        raise ImproperlyConfigured(
            f"SOUNDINGS_OIDC_ISSUER={issuer!r}: write the issuer as the provider's /.well-known/openid-configuration "
            "says it, https://…; http:// only on loopback"
        )
    return issuer


def _scopes() -> str:
    scopes = environment.words("SOUNDINGS_OIDC_SCOPES", "openid profile")
    if "openid" not in scopes:
        raise ImproperlyConfigured(f"SOUNDINGS_OIDC_SCOPES={' '.join(scopes)!r}: must contain openid")
    return " ".join(scopes)


def _group_role(word: str) -> GroupRole:
    name, _, rest = word.rpartition("=")
    role, _, groups = rest.partition(":")
    if not name or role not in ROLES or (":" in rest and not groups):
        raise ImproperlyConfigured(
            f"SOUNDINGS_OIDC_ROLES: {word!r}: write GROUP=viewer, GROUP=operator, or GROUP=viewer:NAME,NAME to limit "
            "the group to groups of the mesh; percent-encode spaces"
        )
    return GroupRole(unquote(name), role, frozenset(unquote(group) for group in groups.split(",") if group))


def _session_hours() -> int:
    value = environment.read("SOUNDINGS_OIDC_SESSION_HOURS", "8")
    if not (value.isdecimal() and value.isascii() and 1 <= int(value) <= LONGEST_SESSION_HOURS):
        raise ImproperlyConfigured(
            f"SOUNDINGS_OIDC_SESSION_HOURS={value!r}: write whole hours, 1 to {LONGEST_SESSION_HOURS}"
        )
    return int(value)

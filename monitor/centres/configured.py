"""The other centres, from SOUNDINGS_OTHER_CENTRES: `name=https://TOKEN@host`.

Errors are `ImproperlyConfigured` and never contain a token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from monitor.accounts.oidc_settings import LOOPBACK

VARIABLE = "SOUNDINGS_OTHER_CENTRES"
FORM = "NAME=https://TOKEN@host, with the token of a user there, or NAME=https://host for pages without a login"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True)
class OtherCentre:
    name: str
    url: str  # its pages, without a slash at the end
    token: str  # a user's token there; empty if it needs none


def read(entries: Iterable[str], *, allow_plain_http: bool) -> tuple[OtherCentre, ...]:
    """Parse entries. Raises `ImproperlyConfigured`."""
    centres: dict[str, OtherCentre] = {}
    for number, entry in enumerate(entries, 1):
        centre = _centre(entry, f"{VARIABLE}, entry {number}", allow_plain_http=allow_plain_http)
        if centre.name in centres:
            raise ImproperlyConfigured(f"{VARIABLE}, entry {number}: {centre.name} is named twice")
        centres[centre.name] = centre
    return tuple(centres.values())


def _centre(entry: str, where: str, *, allow_plain_http: bool) -> OtherCentre:
    name, _, url = entry.partition("=")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not _NAME.fullmatch(name) or not host or parts.scheme not in ("https", "http"):
        raise ImproperlyConfigured(f"{where}: write {FORM}")
    if parts.password is not None or parts.query or parts.fragment:
        raise ImproperlyConfigured(f"{where}, {name}: neither a password nor a query belongs into it; write {FORM}")
    if parts.scheme == "http" and host not in LOOPBACK and not allow_plain_http:
        raise ImproperlyConfigured(f"{where}, {name}: over http anyone on the way reads the token; use https")
    shown = f"[{host}]" if ":" in host else host
    netloc = shown if port is None else f"{shown}:{port}"
    token = unquote(parts.username or "")
    if not token.isascii() or any(character.isspace() for character in token):
        raise ImproperlyConfigured(f"{where}, {name}: this is no token of a user")
    return OtherCentre(name, f"{parts.scheme}://{netloc}{parts.path.rstrip('/')}", token)

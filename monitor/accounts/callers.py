"""Find the client address behind trusted proxies (`SOUNDINGS_TRUSTED_PROXIES`); others can forge X-Forwarded-For."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest

# A key in a request's environment that no header can set.
VALID_TOKEN = "soundings.valid_token"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def client_address(request: HttpRequest) -> str:
    """Address of the nearest hop that is not a trusted proxy; empty for a Unix socket.

    Earlier X-Forwarded-For entries can be forged.
    """
    address = request.META.get("REMOTE_ADDR", "")
    told = request.META.get("HTTP_X_FORWARDED_FOR", "")
    for hop in reversed([entry.strip() for entry in told.split(",")]):
        if not _is_trusted_proxy(address) or _parse_address(hop) is None:
            break
        address = hop
    return address


def note_valid_token(request: HttpRequest, digest: str) -> None:
    """Tell the web server the connection's token, to limit connections by token."""
    request.META[VALID_TOKEN] = digest


def client_network(request: HttpRequest) -> str:
    """Key of rate limits: address, or IPv6 /64, since a host can use all of it."""
    address = client_address(request)
    parsed = _parse_address(address)
    if parsed is None or parsed.version == 4:
        return str(parsed or address)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


def _is_trusted_proxy(address: str) -> bool:
    # Clients of our Unix socket are trusted.
    parsed = _parse_address(address)
    if parsed is None:
        return not address
    return any(parsed in network for network in _networks(tuple(settings.TRUSTED_PROXIES)))


def _parse_address(address: str) -> Address | None:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed


@lru_cache(maxsize=4)
def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)

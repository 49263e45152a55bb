"""Client address of a request behind trusted proxies.

`SOUNDINGS_TRUSTED_PROXIES` names the proxies whose X-Forwarded-For is trusted; others can forge it. Rate limits by
address use this module, since behind a proxy all requests come from the proxy.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest

VALID_TOKEN = "soundings.valid_token"
"""Key in a request's environment, which no header can set."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def client_address(request: HttpRequest) -> str:
    """Address of the nearest hop that is not a trusted proxy; empty for a Unix socket.

    Proxies append, so the header is read from its end; entries before the first untrusted hop can be forged.
    """
    address = request.META.get("REMOTE_ADDR", "")
    told = request.META.get("HTTP_X_FORWARDED_FOR", "")
    for hop in reversed([entry.strip() for entry in told.split(",")]):
        if not _is_trusted_proxy(address) or _parse_address(hop) is None:
            break
        address = hop
    return address


def note_valid_token(request: HttpRequest, digest: str) -> None:
    """Tell the web server whose connection this is: it limits the connections of each token."""
    request.META[VALID_TOKEN] = digest


def client_network(request: HttpRequest) -> str:
    """Address, or its IPv6 /64 network, which a single host can use entirely: the key of rate limits."""
    address = client_address(request)
    parsed = _parse_address(address)
    if parsed is None or parsed.version == 4:
        return str(parsed or address)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


def _is_trusted_proxy(address: str) -> bool:
    """Whether this is a trusted proxy. Clients of our Unix socket are trusted."""
    parsed = _parse_address(address)
    if parsed is None:
        return not address
    return any(parsed in network for network in _networks(tuple(settings.TRUSTED_PROXIES)))


def _parse_address(address: str) -> Address | None:
    """Parse an address; an IPv4-mapped IPv6 address becomes IPv4."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed


@lru_cache(maxsize=4)
def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)

"""The address that a request comes from, with proxies of our own in between.

`SOUNDINGS_TRUSTED_PROXIES` names those that are believed; what others write into X-Forwarded-For is for anybody to make
up. Limits by address go by this, since behind a proxy all requests come from the proxy.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def client_address(request: HttpRequest) -> str:
    """The nearest address on the way here that is no proxy of ours; empty where a Unix socket tells none.

    Proxies append, so the way is read from its end; what stands before the first that is not ours can be made up.
    """
    address = request.META.get("REMOTE_ADDR", "")
    told = request.META.get("HTTP_X_FORWARDED_FOR", "")
    for hop in reversed([one.strip() for one in told.split(",")]):
        if not _is_ours(address) or _parsed(hop) is None:
            break
        address = hop
    return address


def client_network(request: HttpRequest) -> str:
    """The address, or the IPv6 network of 64 bits around it, all of which one machine can have: what limits go by."""
    address = client_address(request)
    parsed = _parsed(address)
    if parsed is None or parsed.version == 4:
        return str(parsed or address)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


def _is_ours(address: str) -> bool:
    """Whether this is a proxy that is believed. Who may write to our Unix socket is one."""
    parsed = _parsed(address)
    if parsed is None:
        return not address
    return any(parsed in network for network in _networks(tuple(settings.TRUSTED_PROXIES)))


def _parsed(address: str) -> Address | None:
    """An IPv4 address that comes as an IPv6 one is the IPv4 address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed


@lru_cache(maxsize=4)
def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)

"""Tell local requests from remote requests.

A reverse proxy on the same machine also connects from loopback. So a request is local only if its Host is a loopback
name and it has no headers of a proxy.
"""

from __future__ import annotations

import ipaddress

from django.http import HttpRequest
from django.http.request import split_domain_port

PROXY_HEADERS = ("HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_REAL_IP")
PROXY_HEADER_PREFIX = "HTTP_X_FORWARDED"


def is_local(request: HttpRequest) -> bool:
    """Whether the request comes directly from this machine.

    A request over a Unix socket has no address: it comes from a proxy.
    """
    domain, _ = split_domain_port(request.get_host())
    return (
        _is_loopback_address(request.META.get("REMOTE_ADDR", ""))
        and _is_loopback_name(domain)
        and not _came_through_a_proxy(request)
    )


def stayed_on_this_machine(request: HttpRequest) -> bool:
    """Whether the request used no network: over loopback or a Unix socket, without a proxy."""
    address = request.META.get("REMOTE_ADDR", "")
    return (not address or _is_loopback_address(address)) and not _came_through_a_proxy(request)


def _is_loopback_address(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (parsed if mapped is None else mapped).is_loopback


def _is_loopback_name(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost") or _is_loopback_address(name)


def _came_through_a_proxy(request: HttpRequest) -> bool:
    return any(name in PROXY_HEADERS or name.startswith(PROXY_HEADER_PREFIX) for name in request.META)

"""Where a request comes from: this machine itself, or anywhere else.

A reverse proxy on the same machine comes from loopback too. So a request counts as this machine's own only if the name
that it asks for is a loopback name as well, and no proxy has left its mark on it.
"""

from __future__ import annotations

import ipaddress

from django.http import HttpRequest
from django.http.request import split_domain_port

PROXY_HEADERS = ("HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_REAL_IP")
PROXY_HEADER_PREFIX = "HTTP_X_FORWARDED"


def is_local(request: HttpRequest) -> bool:
    """Whether the request comes from this machine, to this machine, with nothing in between.

    A request over a Unix socket has no address: it comes from a proxy.
    """
    domain, _ = split_domain_port(request.get_host())
    return (
        _is_loopback_address(request.META.get("REMOTE_ADDR", ""))
        and _is_loopback_name(domain)
        and not _came_through_a_proxy(request)
    )


def stayed_on_this_machine(request: HttpRequest) -> bool:
    """Whether no network has seen the request: it came over loopback or a Unix socket, and from no proxy."""
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

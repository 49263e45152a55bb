"""Who may read the pages and the users' API.

On this machine's own loopback they open without a login. From anywhere else they want Django's login, unless
SOUNDINGS_PUBLIC_READ=1. A reverse proxy on the same machine also comes from loopback, so a request counts as local only
if the name it asks for is a loopback name too and no proxy has left its mark on it. Agents have tokens of their own
(`monitor.api`), and are let through here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.http.request import split_domain_port
from django.urls import reverse

AGENTS_PREFIX = "/api/agent/"
API_PREFIX = "/api/"
PROXY_HEADERS = ("HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_REAL_IP")
PROXY_HEADER_PREFIX = "HTTP_X_FORWARDED"
READING = frozenset({"GET", "HEAD"})
NOT_ALLOWED = (
    "log in first: these pages open without a login only on the machine itself; "
    "SOUNDINGS_PUBLIC_READ=1 opens them to everybody"
)

Handler = Callable[[HttpRequest], HttpResponse]


class ReadAccess:
    """Middleware: lets a request through, or sends people to the login and programs a 401."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if may_read(request):
            return self.get_response(request)
        if request.path.startswith(API_PREFIX):
            return JsonResponse({"detail": NOT_ALLOWED}, status=401)
        return HttpResponseRedirect(f"{reverse('login')}?{urlencode({'next': request.get_full_path()})}")


def may_read(request: HttpRequest) -> bool:
    """Whether this request may see what the centre knows."""
    if request.path.startswith(AGENTS_PREFIX) or request.path == reverse("login"):
        return True
    if settings.PUBLIC_READ and request.method in READING:
        return True
    return is_local(request) or request.user.is_authenticated


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

"""Links by which visitors read a page without a login, until they expire or are revoked.

A link opens a page at an address with its query, and the requests for data of that page; nothing can be changed by it.
The token is stored as a digest. A visitor reads with the limits of the link's owner, and only while that owner may
operate. `monitor.accounts.access` asks `link_for` for each request without a login.
"""

from __future__ import annotations

import secrets
from datetime import datetime

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, resolve
from django.utils import timezone

from monitor.accounts.models import SharedLink, token_digest
from monitor.accounts.roles import READING, Action, may

COOKIE = "soundings_shared"
DEFAULT_DAYS, MOST_DAYS = 7, 90
DATA_OF_PAGE: dict[str, tuple[str, ...]] = {
    "grid": ("grid-changes", "grid-cell"),
    "path": ("path-charts",),
    **dict.fromkeys(
        (
            "map", "routes", "incident", "incidents", "sites", "site", "throughput", "table", "compare", "aggregates",
            "aggregate", "records", "sweeps", "sweep", "completeness",
        ),
        (),
    ),
}  # fmt: skip
"""The pages that can be shared, with the requests for data that each makes, by the names of their addresses."""

CHART_LIBRARY = "chart-bundle"


class CannotShare(Exception):
    """The address is not that of a page that can be shared."""


def create(owner: User, address: str, now: datetime, expires_at: datetime) -> tuple[SharedLink, str]:
    """Share a page, an address of ours with its query; the link and its token, which cannot be read again. Raises
    `CannotShare`."""
    try:
        name = resolve(address.partition("?")[0]).url_name
    except Resolver404:
        name = None
    if name not in DATA_OF_PAGE:
        raise CannotShare(f"{address}: this page cannot be shared")
    token = secrets.token_urlsafe(32)
    link = SharedLink.objects.create(
        owner=owner, digest=token_digest(token), address=address, created_at=now, expires_at=expires_at
    )
    return link, token


def valid_link(token: str) -> SharedLink | None:
    """The link of a token; None if it is unknown, expired or revoked, or its owner may no longer operate."""
    link = (
        SharedLink.objects.select_related("owner")
        .filter(digest=token_digest(token), revoked_at=None, expires_at__gt=timezone.now())
        .first()
    )
    return link if link is not None and may(link.owner, Action.OPERATE) else None


def link_for(request: HttpRequest) -> SharedLink | None:
    """The link of the visitor's browser, if it opens this request."""
    token = request.COOKIES.get(COOKIE)
    if token is None or request.method not in READING:
        return None
    link = valid_link(token)
    return link if link is not None and _opens(link, request) else None


def _opens(link: SharedLink, request: HttpRequest) -> bool:
    page, here = resolve(link.address.partition("?")[0]), request.resolver_match
    if here is None or here.url_name == CHART_LIBRARY or request.get_full_path() == link.address:
        return here is not None
    return here.url_name in DATA_OF_PAGE[str(page.url_name)] and here.kwargs == page.kwargs


def close(response: HttpResponse) -> None:
    """Keep a shared page out of search engines, caches and the Referer of other sites."""
    response.headers["X-Robots-Tag"] = "noindex, nofollow"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cache-Control"] = "private, no-store"

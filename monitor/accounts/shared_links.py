"""Links by which visitors read a page and its data without login, until they expire or are revoked.

Visitors cannot change anything, and read with the owner's limits while the owner may operate.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from datetime import datetime

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import Resolver404, resolve
from django.utils import timezone

from monitor.accounts.models import SharedLink, token_digest
from monitor.accounts.roles import READING, Action, may

COOKIE = "soundings_shared"
DEFAULT_DAYS, MOST_DAYS = 7, 90
# Pages that can be shared, and their data requests, by URL name, with the query parameters that each request adds.
DATA_OF_PAGE: dict[str, dict[str, frozenset[str]]] = {
    "grid": {"grid-changes": frozenset({"since"}), "grid-cell": frozenset({"source", "destination"})},
    "path": {"path-charts": frozenset()},
    **{
        name: {}
        for name in (
            "map", "routes", "incident", "incidents", "sites", "site", "throughput", "table", "compare", "aggregates",
            "aggregate", "records", "sweeps", "sweep", "completeness",
        )
    },
}  # fmt: skip
# Parameters that choose a part of a page; they are not in the queries of its data.
OF_THE_DOCUMENT = frozenset({"page", "parts"})

CHART_LIBRARY = "chart-bundle"


class CannotShare(Exception):
    """The address is not a page that can be shared."""


def create(owner: User, address: str, now: datetime, expires_at: datetime) -> tuple[SharedLink, str]:
    """Share our page at this address and query; the token cannot be read again. Raises `CannotShare`."""
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
    """Return None if the link is unknown, expired or revoked, or its owner may no longer operate."""
    link = (
        SharedLink.objects.select_related("owner")
        .filter(digest=token_digest(token), revoked_at=None, expires_at__gt=timezone.now())
        .first()
    )
    return link if link is not None and may(link.owner, Action.OPERATE) else None


def link_for(request: HttpRequest) -> SharedLink | None:
    """The visitor's link, if it opens this request."""
    token = request.COOKIES.get(COOKIE)
    if token is None or request.method not in READING:
        return None
    link = valid_link(token)
    return link if link is not None and _opens(link, request) else None


def _opens(link: SharedLink, request: HttpRequest) -> bool:
    """Whether the request is for the link's page or data, with the same query."""
    path, _, query = link.address.partition("?")
    page, here = resolve(path), request.resolver_match
    if here is None or here.url_name == CHART_LIBRARY:
        return here is not None
    data = DATA_OF_PAGE[str(page.url_name)]
    if here.kwargs != page.kwargs or here.url_name not in {page.url_name, *data}:
        return False
    # A page refreshes itself by its parts.
    others = {"parts"} if here.url_name == page.url_name else data[str(here.url_name)] | OF_THE_DOCUMENT
    return _without(QueryDict(query), others) == _without(request.GET, others)


def _without(query: QueryDict, names: Collection[str]) -> dict[str, list[str]]:
    return {name: values for name, values in query.lists() if name not in names}


def close(response: HttpResponse) -> None:
    """Keep a shared page out of search engines, caches and the Referer of other sites."""
    response.headers["X-Robots-Tag"] = "noindex, nofollow"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cache-Control"] = "private, no-store"

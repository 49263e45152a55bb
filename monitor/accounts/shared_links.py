"""Links by which visitors read a page without a login, until they expire or are revoked.

A link opens a page at an address with its query, and the requests for data of that page; nothing can be changed by it.
The token is stored as a digest. A visitor reads with the limits of the link's owner, and only while that owner may
operate. `monitor.accounts.access` asks `link_for` for each request without a login.
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
"""The pages that can be shared, with the requests for data that each makes, by the names of their addresses; and the
parameters that such a request adds to the query of its page."""
OF_THE_DOCUMENT = frozenset({"page", "parts"})
"""Parameters of a page that choose a part of it; they are not in the queries of its data."""

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
    """Whether the request is for the page of the link, or for its data: of the same objects, by the same query."""
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

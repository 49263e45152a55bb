"""The status page, `/status/`: the same for every reader without limits; no login where SOUNDINGS_PUBLIC_STATUS is 1.

It is made without the request, so that nothing of a session can be on it, and kept for `KEPT_S`, so that any number of
readers costs the database little. Of many sites it takes a second to make: a reader gets the last, which says of when
it is, while a thread makes a newer one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor import redis_client
from monitor.accounts.access import open_to_the_public
from monitor.accounts.read_limits import is_limited
from monitor.mesh.models import Site
from monitor.overview.wide.losses import SHARED_FROM_SITES
from monitor.web.pages.status import shares
from monitor.web.pages.status.load import DAYS, PAST_DAYS, load_status

log = logging.getLogger(__name__)
KEPT_S = 30
SHOWN_S = 300
"""So old a page of many sites may be while a newer one is made."""
_KEY = "status-page-with-time"
_one_at_a_time = threading.Lock()
_kept: dict[str, _Page] = {}
"""The page of this process, for a centre without Redis."""


@dataclass(frozen=True, slots=True)
class _Page:
    """A page that was made at `made_s`, in seconds since 1970, of so many sites."""

    made_s: float
    html: str
    sites: int

    @property
    def shown_s(self) -> int:
        return SHOWN_S if self.sites >= SHARED_FROM_SITES else KEPT_S

    def is_younger_than(self, age_s: float) -> bool:
        return 0 <= time.time() - self.made_s < age_s


@open_to_the_public
@require_safe
def status_page(request: HttpRequest) -> HttpResponse:
    """Sites with their uptime, incidents and maintenance."""
    response = HttpResponse(_page())
    is_public = settings.PUBLIC_STATUS and not is_limited()
    response["Cache-Control"] = f"{'public' if is_public else 'private'}, max-age={KEPT_S}"
    return response


def _page() -> str:
    if is_limited():
        return _made().html
    page = _kept_page()
    if page is None:
        with _one_at_a_time:
            page = _kept_page() or _keep(_made())
    elif not page.is_younger_than(KEPT_S):
        _make_beside()
    return page.html


def make_early() -> None:
    """Make the page of many sites in a thread before its first reader."""
    _make_beside(is_wanted=lambda: Site.objects.in_use().count() >= SHARED_FROM_SITES and _kept_page() is None)


def _kept_page() -> _Page | None:
    """The newest page there is, of all processes or of this one."""
    shared: bytes | None = redis_client.centre().command("get", _KEY)
    page = _kept.get(_KEY)
    if shared is not None:
        made_s, sites, html = shared.decode().split("\n", 2)
        page = _Page(float(made_s), html, int(sites))
    return page if page is not None and page.is_younger_than(page.shown_s) else None


def _keep(page: _Page) -> _Page:
    _kept[_KEY] = page
    text = f"{page.made_s}\n{page.sites}\n{page.html}"
    redis_client.centre().command("set", _KEY, text.encode(), ex=page.shown_s)
    return page


def _make_beside(is_wanted: Callable[[], bool] = lambda: True) -> None:
    """Make a newer page in a thread, if it is wanted, unless a page is being made."""
    if not _one_at_a_time.acquire(blocking=False):
        return

    def work() -> None:
        try:
            if is_wanted():
                _keep(_made())
        except Exception:
            # Nobody needs it yet; when the last is too old the next reader makes one, and gets the error if it fails.
            log.warning("the status page could not be made beside requests", exc_info=True)
        finally:
            _one_at_a_time.release()
            connection.close()

    threading.Thread(target=work, name="status", daemon=True).start()


def _made() -> _Page:
    made_s, now = time.time(), timezone.now()
    view = load_status(now)
    context = {"view": view, "now": now, "days": DAYS, "past_days": PAST_DAYS}
    return _Page(made_s, render_to_string("pages/status/status.html", context), view.all_sites)


def forget() -> None:
    """Make the page anew for the next request."""
    _kept.clear()
    shares.forget()
    redis_client.centre().command("delete", _KEY)

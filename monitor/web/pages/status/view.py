"""The status page, `/status/`: the same for every reader without limits; no login where SOUNDINGS_PUBLIC_STATUS is 1.

It is made without the request, so that nothing of a session can be on it, and kept for `KEPT_S`, so that any number of
readers costs the database little.
"""

from __future__ import annotations

import threading
import time

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor import redis_client
from monitor.accounts.access import open_to_the_public
from monitor.accounts.read_limits import is_limited
from monitor.web.pages.status.load import DAYS, PAST_DAYS, load_status

KEPT_S = 30
_KEY = "status-page"
_one_at_a_time = threading.Lock()
_kept: dict[str, tuple[float, str]] = {}
"""The page of this process, for a centre without Redis."""


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
        return _render()
    cache = redis_client.centre()
    kept: bytes | None = cache.command("get", _KEY)
    if kept is not None:
        return kept.decode()
    with _one_at_a_time:
        made_s, html = _kept.get(_KEY, (0.0, ""))
        if html and time.monotonic() - made_s < KEPT_S:
            return html
        html = _render()
        _kept[_KEY] = (time.monotonic(), html)
        cache.command("set", _KEY, html.encode(), ex=KEPT_S, nx=True)
    return html


def _render() -> str:
    now = timezone.now()
    context = {"view": load_status(now), "now": now, "days": DAYS, "past_days": PAST_DAYS}
    return render_to_string("pages/status/status.html", context)


def forget() -> None:
    """Make the page anew for the next request."""
    _kept.clear()
    redis_client.centre().command("delete", _KEY)

"""Status page, public where SOUNDINGS_PUBLIC_STATUS is 1.

It is made without the request, so that it has nothing of a session, and cached for `KEPT_FOR`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.accounts.access import open_to_the_public
from monitor.accounts.read_limits import is_limited
from monitor.overview.wide.losses import SHARED_FROM_SITES
from monitor.overview.wide.shared import SharedResults
from monitor.web.pages.status import shares
from monitor.web.pages.status.load import DAYS, PAST_DAYS, load_status

# Other pages have the state of the moment. Making the page takes hundredths, of many sites tenths of a second.
KEPT_FOR = timedelta(seconds=2)
# How often an open page looks for a newer one; of many sites it has hundreds of kilobytes.
EVERY_S, MANY_EVERY_S = 10, 60

_pages: SharedResults[None, str] = SharedResults(new_for=KEPT_FOR, shown_for=KEPT_FOR, is_large=lambda _: True)


@open_to_the_public
@require_safe
def status_page(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    response = HttpResponse(_pages.get(None, now, lambda: _made(now)))
    is_public = settings.PUBLIC_STATUS and not is_limited()
    max_age_s = int(KEPT_FOR.total_seconds())
    response["Cache-Control"] = f"{'public' if is_public else 'private'}, max-age={max_age_s}"
    return response


def make_early() -> None:
    """Make the page in advance: many sites' bars would take the first reader seconds."""
    now = timezone.now()
    _pages.load_early(None, now, lambda: _made(now))


def _made(now: datetime) -> str:
    view = load_status(now)
    every_s = EVERY_S if view.all_sites < SHARED_FROM_SITES else MANY_EVERY_S
    context = {"view": view, "now": now, "days": DAYS, "past_days": PAST_DAYS, "every_s": every_s}
    return render_to_string("pages/status/status.html", context)


def forget() -> None:
    _pages.clear()
    shares.forget()

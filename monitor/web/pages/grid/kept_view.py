"""The choices behind "View" that a reader keeps, in a cookie."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict

from monitor.overview.grid_layout import GridOrder
from monitor.web.request import parameters
from monitor.web.request.preferences import set_cookie

COOKIE = "soundings_view"
KEPT = ("against", "size", "group", "order", "paths", "cells")
# Values that say nothing.
DEFAULTS = ("", GridOrder.SITE.value)
LONGEST = 500


def in_kept_view(request: HttpRequest) -> HttpResponse | None:
    """Keep a view, or lead an address without one to the kept view; None for others."""
    if "parts" in request.GET or getattr(request, "shared_link", None):
        return None
    chosen = parameters.kept(request)
    if chosen.pop("keep", None):
        answer = _to(request, chosen)
        view = urlencode({name: chosen[name][-1] for name in KEPT if chosen.get(name, [""])[-1] not in DEFAULTS})
        if len(view) > LONGEST:
            return answer
        if view:
            set_cookie(answer, COOKIE, view)
        else:
            answer.delete_cookie(COOKIE)
        return answer
    kept = _of_cookie(request)
    return None if not kept or any(name in chosen for name in KEPT) else _to(request, {**kept, **chosen})


def without_kept_view(request: HttpRequest) -> HttpResponse | None:
    """Forget a kept view with a choice that is gone; None if the address is not its."""
    kept = _of_cookie(request)
    if not kept or any(request.GET.get(name) != value for name, value in kept.items()):
        return None
    answer = _to(request, {name: values for name, values in parameters.kept(request).items() if name not in KEPT})
    answer.delete_cookie(COOKIE)
    return answer


def _of_cookie(request: HttpRequest) -> dict[str, str]:
    given = QueryDict(request.COOKIES.get(COOKIE, "")[:LONGEST])
    return {name: given[name] for name in KEPT if name in given}


def _to(request: HttpRequest, chosen: dict[str, object]) -> HttpResponseRedirect:
    query = urlencode(chosen, doseq=True)
    return HttpResponseRedirect(f"{request.path}?{query}" if query else request.path)

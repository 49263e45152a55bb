"""Sites page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.mesh.models import Mesh
from monitor.web import trends
from monitor.web.pages.first_run import still_waiting
from monitor.web.pages.sites.load import load_sites
from monitor.web.request import parameters

# Sites on a page; more are divided into sheets.
MOST_CARDS = 100


@require_safe
def sites_page(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    view = load_sites(now)
    is_heard = any(card.report is not None for card in view.cards)
    offset = parameters.offset(request)
    cards = view.cards if len(view.cards) <= MOST_CARDS else view.cards[offset : offset + parameters.PAGE_ROWS]
    context = {
        "mesh": Mesh.objects.first(),
        "view": view,
        "cards": cards,
        "sheet": None if cards is view.cards else parameters.sheet(request, len(cards), total=len(view.cards)),
        "now": now,
        "trends": trends.of_sites(now, {card.site.pk for card in cards}, len(view.cards)),
        "first_run": None if is_heard else still_waiting(now),
    }
    return render(request, "pages/sites/sites.html", context)

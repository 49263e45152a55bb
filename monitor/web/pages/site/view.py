from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.archive.upkeep import freshness
from monitor.mesh.models import Site
from monitor.overview.grid import HistoryPeriod, UnknownChoice
from monitor.web.pages.first_run import still_waiting
from monitor.web.pages.incidents.operate import may_operate
from monitor.web.pages.path.other_tests.annotate import SiteAnnotationForm
from monitor.web.pages.site.load import load_site
from monitor.web.request import parameters
from monitor.web.request.grid_choices import ENDS, chosen_packet_bytes
from monitor.web.request.window import shown_period


@require_safe
def site_page(request: HttpRequest, name: str) -> HttpResponse:
    now = timezone.now()
    shown = shown_period(request, now)
    try:
        fresh = freshness.load()
        view = load_site(name, shown, chosen_packet_bytes(request), now)
    except Site.DoesNotExist as error:
        raise Http404(f"There is no site {name}; /sites/ lists those that there are.") from error
    except UnknownChoice as error:
        raise Http404(str(error)) from error
    context = {
        "view": view,
        "fresh": fresh,
        "now": now,
        "may_operate": may_operate(request),
        "annotation_form": SiteAnnotationForm() if may_operate(request) else None,
        "first_run": None if view.packet_sizes else still_waiting(now),
        "periods": parameters.options(
            request, "period", [(period, period) for period in HistoryPeriod], shown.period, without=ENDS
        ),
        "sizes": parameters.options(
            request, "size", [(f"{size} B", size) for size in view.packet_sizes], view.packet_bytes
        ),
    }
    return render(request, "pages/site/site.html", context)

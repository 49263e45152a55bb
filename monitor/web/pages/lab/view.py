"""The lab's page, only in lab mode (`settings.LAB_DIR`).

Only operators and, from this machine, the lab's user may break paths: others may not use the lab's control socket
either.
"""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from monitor.accounts.origin import is_by_this_user
from monitor.accounts.read_limits import is_limited
from monitor.accounts.roles import Action, needs
from monitor.web.pages.incidents.operate import may_operate, refusal
from monitor.web.pages.lab.load import (
    BreakForm,
    LabView,
    change_site,
    connect_centre,
    expected_now,
    load_lab,
    undo,
)
from probes.commands.own_command import MANAGE
from probes.lab import control
from probes.lab.settings import LabError

REFRESH_S = 3


# Open to readers here: the user who runs the lab needs no login, and is recognised below.
@needs(Action.READ)
@require_http_methods(["GET", "HEAD", "POST"])
def lab_page(request: HttpRequest) -> HttpResponse:
    if settings.LAB_DIR is None or is_limited():
        raise Http404(f"There is no lab here: `{MANAGE} up --lab` runs one.")
    may_break = may_operate(request) or (settings.LOCAL_READ and is_by_this_user(request))
    if request.method == "POST" and not may_break:
        raise PermissionDenied("only operators, and the user who runs the lab, may break its paths")
    try:
        view = load_lab(settings.LAB_DIR, timezone.now(), request.GET.get("path", ""))
        if request.method == "POST":
            return _change(request, view, settings.LAB_DIR)
    except LabError as error:
        return refusal(request, f"the lab does not answer: {error}", 503, reverse("grid"))
    initial = {"path": request.GET.get("path", ""), "loss_percent": 20}
    return _page(request, view, BreakForm(view.pairs, initial=initial) if may_break else None)


@needs(Action.READ)
@require_safe
@never_cache
def lab_expected(request: HttpRequest) -> JsonResponse:
    """Sentences, and seconds until the incident, for `lab set`."""
    if settings.LAB_DIR is None or is_limited():
        raise Http404(f"There is no lab here: `{MANAGE} up --lab` runs one.")
    query = request.GET
    try:
        expected = expected_now(settings.LAB_DIR, timezone.now(), query.get("path", ""), query.get("site", ""))
    except LabError as error:
        return JsonResponse({"detail": str(error)}, status=503)
    waits_s = [each.wait_s for each in expected if each.wait_s is not None]
    return JsonResponse({"sentences": [each.sentence for each in expected], "wait_s": max(waits_s, default=None)})


def _change(request: HttpRequest, view: LabView, run_dir: Path) -> HttpResponse:
    if "undo" in request.POST:
        undo(run_dir, request.POST["undo"])
        return HttpResponseRedirect(reverse("lab"))
    if "connect" in request.POST:
        connect_centre(run_dir)
        return HttpResponseRedirect(reverse("lab"))
    if "down" in request.POST or "up" in request.POST:
        is_down = "down" in request.POST
        try:
            change_site(run_dir, request.POST["down" if is_down else "up"], is_down=is_down)
        except LabError as error:
            return refusal(request, str(error), 422, reverse("lab"))
        return HttpResponseRedirect(reverse("lab"))
    form = BreakForm(view.pairs, request.POST)
    if not form.is_valid():
        return _page(request, view, form, status=422)
    try:
        for change in form.requests:
            control.ask(run_dir, change)
    except LabError as error:
        return refusal(request, str(error), 422, reverse("lab"))
    return HttpResponseRedirect(reverse("lab"))


def _page(request: HttpRequest, view: LabView, form: BreakForm | None, status: int = 200) -> HttpResponse:
    context = {"view": view, "form": form, "refresh_s": REFRESH_S}
    return render(request, "pages/lab/lab.html", context, status=status)

"""Completeness page."""

from __future__ import annotations

from enum import StrEnum

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.mesh.models import Mesh
from monitor.web.pages.completeness.load import load_completeness
from monitor.web.pages.first_run import still_waiting
from monitor.web.request import parameters


class DayChoice(StrEnum):
    WEEK = "7"
    FORTNIGHT = "14"
    MONTH = "30"


@require_safe
def completeness_page(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    length = parameters.choice(request, "days", DayChoice, DayChoice.WEEK)
    view = load_completeness(int(length), now)
    context = {
        "mesh": Mesh.objects.first(),
        "view": view,
        "first_run": None if view.measured else still_waiting(now),
        "lengths": parameters.options(request, "days", [(f"{days} days", days) for days in DayChoice], length),
    }
    return render(request, "pages/completeness/completeness.html", context)

"""Records: fastest transfers in bit/s and bit-metres per second."""

from __future__ import annotations

from enum import StrEnum

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.archive.queries.throughput.record_transfers import RecordBy, best_transfers
from monitor.mesh.models import Mesh
from monitor.overview.grid import HistoryPeriod
from monitor.web.pages.first_run import tests_wait
from monitor.web.request import parameters

SHOWN = 20
UNITS = ((1e15, "Pbit·m/s"), (1e12, "Tbit·m/s"), (1e9, "Gbit·m/s"), (1e6, "Mbit·m/s"))
BY = {RecordBy.RATE: "bit/s", RecordBy.BIT_METRES: "bit-metres/s"}


class Families(StrEnum):
    ALL = "all"
    IPV4 = "4"
    IPV6 = "6"


@require_safe
def records_page(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    by = parameters.choice(request, "by", RecordBy, RecordBy.RATE)
    period = parameters.choice(request, "period", HistoryPeriod, HistoryPeriod.MONTH)
    family = parameters.choice(request, "family", Families, Families.ALL)
    number = None if family is Families.ALL else int(family)
    best = best_transfers(now - period.length, now, by=by, family=number, limit=SHOWN)
    context = {
        "mesh": Mesh.objects.first(),
        "period": period,
        "waits": [] if best else tests_wait(now),
        "records": [(record, bit_metres(record.bit_metres_per_s)) for record in best],
        "bys": parameters.options(request, "by", [(label, order) for order, label in BY.items()], by),
        "periods": parameters.options(request, "period", [(length, length) for length in HistoryPeriod], period),
        "families": parameters.options(
            request,
            "family",
            [("all" if choice is Families.ALL else f"IPv{choice}", choice) for choice in Families],
            family,
        ),
    }
    return render(request, "pages/records/records.html", context)


def bit_metres(value_bit_metres_per_s: float) -> str:
    """As land speed records: 10,619 Tbit·m/s is 10.6 Pbit·m/s."""
    for scale, unit in UNITS:
        if value_bit_metres_per_s >= scale:
            return f"{value_bit_metres_per_s / scale:.3g} {unit}"
    return f"{value_bit_metres_per_s:.3g} bit·m/s"

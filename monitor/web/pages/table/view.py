"""PingER's table as a page and as tab-separated values."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.api.freshness import date_summaries
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.tables import Grouping, Tick
from monitor.archive.upkeep.freshness import table_lacks_since
from monitor.mesh.models import Family, Mesh
from monitor.overview.grid import UnknownChoice
from monitor.overview.measures import measure_of
from monitor.overview.wide.places import load_places
from monitor.web.pages.first_run import still_waiting
from monitor.web.pages.table.load import TableQuery, TableView, as_tsv, load_table, tick_name
from monitor.web.request import parameters
from monitor.web.request.parameters import Option


@dataclass(frozen=True, slots=True)
class ColumnHead:
    label: str
    query: str
    at: str
    order: str


METRICS = [(metric, measure_of(metric).title) for metric in Metric]


@require_safe
def table_page(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    try:
        view = load_table(_query_of(request), now)
    except UnknownChoice as error:
        raise Http404(str(error)) from error
    context = {
        "mesh": Mesh.objects.first(),
        "view": view,
        "first_run": None if view.rows or view.complaint else still_waiting(now),
        "bys": parameters.options(request, "by", [(by, by) for by in Grouping], view.query.by),
        "ticks": parameters.options(request, "tick", [(tick, tick) for tick in Tick], view.query.tick),
        "sizes": _sizes(request, view),
        "metrics": METRICS,
        "families": Family,
        "sorts": _sorts(request, view),
        "kept": {name: request.GET[name] for name in ("by", "tick", "size", "sort") if request.GET.get(name)},
    }
    return render(request, "pages/table/table.html", context, status=422 if view.complaint else 200)


@require_safe
def table_tsv(request: HttpRequest) -> HttpResponse:
    wanted, now = _query_of(request), timezone.now()
    try:
        text = as_tsv(wanted, now)
    except UnknownChoice as error:
        raise Http404(str(error)) from error
    except ValueError as error:
        return HttpResponse(f"{error}\n", status=422, content_type="text/plain; charset=utf-8")
    response = HttpResponse(text, content_type="text/tab-separated-values; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{wanted.metric}-by-{wanted.by}-{wanted.tick}.tsv"'
    date_summaries(response, table_lacks_since(wanted.metric, wanted.tick, now))
    return response


def _query_of(request: HttpRequest) -> TableQuery:
    family = parameters.number(request, "family")
    if family is not None and family not in Family.values:
        raise Http404(f"family={family}: choose 4 or 6")
    return TableQuery(
        by=parameters.choice(request, "by", Grouping, Grouping.SITE if "by" in request.GET else _usual_grouping()),
        metric=parameters.choice(request, "metric", Metric, Metric.LOSS),
        tick=parameters.choice(request, "tick", Tick, Tick.DAY),
        packet_bytes=parameters.number(request, "size"),
        family=None if family is None else Family(family),
        source=parameters.text(request, "from") or "",
        destination=parameters.text(request, "to") or "",
        sort=parameters.text(request, "sort") or "worst",
    )


def _usual_grouping() -> Grouping:
    places = load_places()
    return Grouping.SITE if places is None else Grouping(places.kind)


def _sizes(request: HttpRequest, view: TableView) -> list[Option]:
    chosen = view.query.packet_bytes or min(view.packet_sizes, default=0)
    return parameters.options(request, "size", [(f"{size} B", size) for size in view.packet_sizes], chosen)


def _sorts(request: HttpRequest, view: TableView) -> list[ColumnHead]:
    columns = [("source", "from"), ("destination", "to"), ("worst", "worst"), ("median", "median")]
    columns += [(tick_name(at), head) for at, head in zip(view.ticks, view.heads, strict=True)]
    return [_head(request, view.query, name, label, is_tick=place >= 4) for place, (name, label) in enumerate(columns)]


def _head(request: HttpRequest, wanted: TableQuery, name: str, label: str, *, is_tick: bool) -> ColumnHead:
    (link,) = parameters.options(request, "sort", [(label, f"-{name}" if wanted.sort == name else name)], None)
    order = ""
    if wanted.sort.removeprefix("-") == name:
        rises = name in ("source", "destination") or wanted.metric.lower_is_worse
        order = "ascending" if rises != wanted.sort.startswith("-") else "descending"
    return ColumnHead(label, link.query, name if is_tick else "", order)

"""Routes page: the mesh as a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.archive.queries.routes.mesh_routes import change_steps
from monitor.mesh.models import Mesh, Site
from monitor.routes.places import sources
from monitor.web.pages.routes import slider
from monitor.web.pages.routes.drawing import Addresses, graph
from monitor.web.pages.routes.load import MOST_PATHS, MeshRoutesView, RouteFilter, load_routes
from monitor.web.pages.routes.parts import EVERY_BLOCK, GraphPart, PartKind
from monitor.web.request import parameters
from monitor.web.request.window import minute

MOST_PARTS = 160
MOST_ROWS = 100
LARGEST_AS = 2**32 - 1
FILTERS = ("site", "as", "hop", "through", "link")


@dataclass(frozen=True, slots=True)
class Chip:
    label: str
    query: str


@require_safe
def routes_page(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    at = slider.moment_of(request, now)
    period = slider.period_of(request)
    wanted = _filter(request)
    opened = frozenset(request.GET.getlist("open"))
    view = load_routes(at or now, wanted, opened)
    drawn = graph(view.chains, view.states, _addresses(request, opened), view.start, MOST_PARTS)
    since, until = slider.span(at, now, period.length)
    only_these = [row.path_id for row in view.rows] if wanted.is_of_routes or wanted.site else None
    steps = change_steps(since, until, period.length.total_seconds() / slider.STEPS, only_these)
    times = slider.slider(at, since, until, steps)
    tables = sources()
    context = {
        "mesh": Mesh.objects.first(),
        "now": now,
        "at": at or now,
        "is_now": at is None,
        "view": view,
        "graph": drawn,
        "has_graph": bool(drawn.boxes),
        "problems": sum(row.has_problem for row in view.rows),
        "rows": view.rows[:MOST_ROWS],
        "parts": drawn.parts[:MOST_ROWS],
        "links": drawn.links[:MOST_ROWS],
        "most_paths": MOST_PATHS,
        "slider": times,
        "periods": parameters.options(request, "last", [(name, name) for name in slider.PERIODS], period),
        "earlier": times.earlier and _with(request, at=slider.text(times.earlier)),
        "later": times.later and _with(request, at=slider.text(times.later)),
        "live": None if at is None else _with(request, at=None),
        "at_field": minute(at or now),
        "kept_at": _fields(request, "at", "zone"),
        "kept_filters": _fields(request, *FILTERS),
        "wanted": wanted,
        "sites": list(Site.objects.in_use().values_list("name", flat=True)),
        "chips": _chips(request, wanted, view),
        "opened": [Chip(_opened_name(key), _with(request, open=sorted(opened - {key}))) for key in sorted(opened)],
        "open_all": None if EVERY_BLOCK in opened else _with(request, open=[EVERY_BLOCK]),
        "table": next((source for source in tables if source.name == "asn"), None),
        "path_query": "" if at is None else _path_query(at),
    }
    return render(request, "pages/routes/routes.html", context)


def _filter(request: HttpRequest) -> RouteFilter:
    site, hop = parameters.text(request, "site"), parameters.text(request, "hop")
    if site is not None and not Site.objects.filter(name=site).exists():
        raise Http404(f"site={site}: there is no such site; /sites/ lists them")
    link = request.GET.getlist("link")
    if link and len(link) != 2:
        raise Http404("link: give the parts at both ends, as the links of the graph do")
    return RouteFilter(
        site=site,
        asn=parameters.number(request, "as", LARGEST_AS),
        hop=None if hop is None else _address(hop),
        through=parameters.text(request, "through"),
        link=(link[0], link[1]) if link else None,
    )


def _address(given: str) -> str:
    try:
        return str(ip_address(given.strip()))
    except ValueError as error:
        raise Http404(f"hop={given}: give the IP address of a router") from error


def _with(request: HttpRequest, **changed: Any) -> str:
    kept: dict[str, Any] = {name: values for name, values in parameters.kept(request).items() if name not in changed}
    if "at" in changed:
        kept.pop("zone", None)
    return urlencode({**kept, **{name: value for name, value in changed.items() if value}}, doseq=True)


def _fields(request: HttpRequest, *without: str) -> list[tuple[str, str]]:
    return [
        (name, value) for name, values in parameters.kept(request).items() for value in values if name not in without
    ]


def _addresses(request: HttpRequest, opened: frozenset[str]) -> Addresses:
    none: dict[str, Any] = dict.fromkeys(FILTERS)

    def of_part(part: GraphPart) -> str | None:
        changed: dict[PartKind, Callable[[], dict[str, Any]]] = {
            PartKind.SITE: lambda: {"site": part.label},
            PartKind.AS: lambda: {"as": part.key.partition(":")[2]},
            PartKind.HOP: lambda: {"hop": part.address},
        }
        return _with(request, **{**none, **changed.get(part.kind, lambda: {"through": part.key})()})

    def toggle(key: str) -> str:
        return _with(request, open=sorted(opened ^ {key}))

    return Addresses(of_part, lambda near, far: _with(request, **{**none, "link": [near.key, far.key]}), toggle, opened)


def _chips(request: HttpRequest, wanted: RouteFilter, view: MeshRoutesView) -> list[Chip]:
    names = {part.key: part.words for row in view.chains for step in row.steps for part in [step.part]}
    systems = {part.key: part.words for part in view.systems}

    def name(key: str) -> str:
        return names.get(key) or systems.get(key) or _opened_name(key)

    chips = []
    if wanted.site is not None:
        chips.append(Chip(f"site {wanted.site}", _with(request, site=None)))
    if wanted.asn is not None:
        chips.append(
            Chip(systems.get(f"{PartKind.AS}:{wanted.asn}", f"AS {wanted.asn}"), _with(request, **{"as": None}))
        )
    if wanted.hop is not None:
        chips.append(Chip(f"hop {wanted.hop}", _with(request, hop=None)))
    if wanted.through is not None:
        chips.append(Chip(name(wanted.through), _with(request, through=None)))
    if wanted.link is not None:
        chips.append(Chip(" – ".join(name(key) for key in wanted.link), _with(request, link=None)))
    return chips


def _opened_name(key: str) -> str:
    kind, _, name = key.partition(":")
    if key == EVERY_BLOCK:
        return "all hops"
    return f"AS {name}" if kind == PartKind.AS else name


def _path_query(at: datetime) -> str:
    return urlencode({"since": minute(at - timedelta(hours=1)), "until": minute(at + timedelta(hours=1))})

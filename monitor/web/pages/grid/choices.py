"""Choices of the grid page, in its address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest

from monitor.overview.grid_layout import EVERY_PLACE, GridLayout, GridOrder, GridView
from monitor.web.request import parameters

ORDERS: list[tuple[str, Any]] = [
    ("by site", GridOrder.SITE),
    ("worst first", GridOrder.WORST),
    ("by region", GridOrder.REGION),
    ("by group", GridOrder.GROUP),
    ("list", GridOrder.LIST),
]
PATHS: list[tuple[str, Any]] = [("all", ""), ("problems", "problems")]
CELLS: list[tuple[str, Any]] = [("figures", "figures"), ("compact", "compact")]
LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class PlaceLink:
    name: str
    sites: int
    query: str
    is_folded: bool


def chosen_view(request: HttpRequest) -> GridView:
    """Raises Http404 for an unknown choice."""
    return GridView(
        order=parameters.choice(request, "order", GridOrder, GridOrder.SITE),
        problems_only=request.GET.get("paths") == "problems",
        name=(parameters.text(request, "name") or "").strip().lower()[:LONGEST_NAME],
        folded=frozenset(request.GET.getlist("fold")),
    )


def options_of_view(request: HttpRequest, view: GridView, *, is_compact: bool, may_choose: bool) -> dict[str, Any]:
    """Choices of the view, and fields that the name filter keeps; `may_choose` offers both forms of cells."""
    kept = [(name, value) for name, values in parameters.kept(request).items() for value in values if name != "name"]
    return {
        "orders": parameters.options(request, "order", ORDERS, view.order, without=("fold",)),
        "shown_paths": parameters.options(request, "paths", PATHS, "problems" if view.problems_only else ""),
        "cell_forms": parameters.options(request, "cells", CELLS, "compact" if is_compact else "figures")
        if may_choose
        else [],
        "kept_fields": kept,
    }


def place_links(request: HttpRequest, view: GridView, layout: GridLayout) -> list[PlaceLink]:
    if not layout.places:
        return []
    kept = {name: values for name, values in parameters.kept(request).items() if name != "fold"}
    names = {place.name for place in layout.places}
    folded = {name for name in names if view.is_folded(name)}

    def link(name: str, sites: int, toggled: set[str], is_folded: bool) -> PlaceLink:
        fold = [EVERY_PLACE] if toggled == names else sorted(toggled)
        return PlaceLink(name, sites, urlencode({**kept, "fold": fold}, doseq=True), is_folded)

    everything = link("all", sum(place.sites for place in layout.places), names if not folded else set(), bool(folded))
    return [
        everything,
        *(link(place.name, place.sites, folded ^ {place.name}, place.name in folded) for place in layout.places),
    ]

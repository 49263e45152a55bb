"""Tabs under the charts of the path page."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlencode

from django.http import HttpRequest

from monitor.web.pages.path.load import PathView


class PathTab(StrEnum):
    """Values are parts of addresses."""

    TESTS = "tests"
    DIRECTIONS = "directions"
    ROUTES = "routes"
    SETTINGS = "settings"
    ESTIMATE = "estimate"
    INCIDENTS = "incidents"
    CHANGES = "changes"
    LEDGER = "ledger"
    DOWNLOAD = "download"

    @property
    def label(self) -> str:
        return _LABELS[self]


_LABELS = {
    PathTab.TESTS: "Throughput tests",
    PathTab.DIRECTIONS: "Directions",
    PathTab.ROUTES: "Routes",
    PathTab.SETTINGS: "Best settings",
    PathTab.ESTIMATE: "Expected throughput",
    PathTab.INCIDENTS: "Incidents",
    PathTab.CHANGES: "Changes",
    PathTab.LEDGER: "Scheduled vs completed",
    PathTab.DOWNLOAD: "Download",
}


@dataclass(frozen=True, slots=True)
class TabLink:
    tab: PathTab
    query: str
    count: int | None

    @property
    def template(self) -> str:
        return f"pages/path/tabs/_{self.tab}.html"


def tab_links(request: HttpRequest, view: PathView, routes: int, sweeps: int) -> list[TabLink]:
    counts = {PathTab.ROUTES: routes, PathTab.INCIDENTS: len(view.incidents), PathTab.CHANGES: len(view.changes)}
    return [
        TabLink(tab, urlencode({**dict(request.GET.lists()), "tab": tab}, doseq=True), counts.get(tab))
        for tab in PathTab
        if tab not in absent_tabs(view, routes, sweeps)
    ]


def absent_tabs(view: PathView, routes: int, sweeps: int) -> set[PathTab]:
    """Tabs to leave out: directions without STAMP, routes without traces, settings without a scheduled sweep."""
    there = {
        PathTab.DIRECTIONS: view.directions is not None,
        PathTab.ROUTES: routes > 0,
        PathTab.SETTINGS: sweeps > 0,
    }
    return {tab for tab, is_there in there.items() if not is_there}

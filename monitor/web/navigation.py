"""Pages in the header, and under "More"."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.urls import reverse


@dataclass(frozen=True, slots=True)
class Destination:
    """A page in the header; with `needs_login`, only for readers who are logged in."""

    name: str
    label: str
    within: frozenset[str] = frozenset()  # names of further addresses that belong to it
    needs_login: bool = False


DAILY = (
    Destination("grid", "Grid", frozenset({"path"})),
    Destination("incidents", "Incidents", frozenset({"incident"})),
    Destination("sites", "Sites", frozenset({"site"})),
    Destination("throughput", "Throughput", frozenset({"aggregates", "aggregate"})),
    Destination("map", "Map"),
    Destination("reports", "Reports"),
)
# Under "More" where a lab runs.
LAB = Destination("lab", "Lab")
# Under "More" where other centres are configured.
CENTRES = Destination("centres", "Centres")
MORE = (
    Destination("routes", "Routes"),
    Destination("table", "Table"),
    Destination("compare", "Compare"),
    Destination("sweeps", "Sweeps", frozenset({"sweep"})),
    Destination("records", "Records"),
    Destination("calculator", "Calculator"),
    Destination("captures", "Packet captures", needs_login=True),
    Destination("maintenance", "Maintenance", frozenset({"maintenance-change"})),
    Destination("completeness", "Completeness"),
    Destination("audit", "Activity", needs_login=True),
    Destination("share", "Shared pages", needs_login=True),
    Destination("status", "Status page"),
    Destination("preferences", "Settings"),
)


@dataclass(frozen=True, slots=True)
class Link:
    label: str
    address: str
    is_current: bool
    is_within: bool  # leads to the list that the current page belongs to


@dataclass(frozen=True, slots=True)
class Navigation:
    daily: list[Link]
    more: list[Link]

    @property
    def current_more(self) -> str | None:
        return next((link.label for link in self.more if link.is_current or link.is_within), None)


def navigation(current: str | None, *, is_logged_in: bool) -> Navigation:
    """`current` is the page's URL name; None for a page without."""
    more = (*MORE, *([CENTRES] if settings.OTHER_CENTRES else []), *([] if settings.LAB_DIR is None else [LAB]))
    return Navigation(_links(DAILY, current, is_logged_in), _links(more, current, is_logged_in))


def _links(destinations: tuple[Destination, ...], current: str | None, is_logged_in: bool) -> list[Link]:
    return [
        Link(page.label, reverse(page.name), is_current=page.name == current, is_within=current in page.within)
        for page in destinations
        if is_logged_in or not page.needs_login
    ]

"""Load the lab's page; only the lab's user may use its control socket."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Literal

from django import forms

from monitor.alerts.incidents.queries import PathIncident, incident_between_sites
from monitor.web.pages.lab.earlier import OF_A_ROUTE, FaultSymptom, earlier_incident, symptoms_of
from monitor.web.pages.lab.expect import Expectation, examples, expected_of, too_early_paths
from monitor.web.pages.lab.route_changes import expected_of_routes
from probes.commands.own_command import probes_command
from probes.data_folder import default_data
from probes.lab import breaks, control, sites
from probes.lab.control import PathStatus
from probes.lab.routing.protocol import RouteRequest, RouteStatus
from probes.lab.scenario import resolve_site
from probes.quantities import duration_text

MOST_DELAY_MS = 5_000
MOST_RATE_MBPS = 100_000


@dataclass(frozen=True, slots=True)
class BrokenPath:
    """Settings or routes changed, or a site (`source`) is down."""

    changed: Literal["path", "link", "route", "site"]
    source: str
    destination: str
    text: str
    changed_at: datetime
    waited: str
    incident: PathIncident | None  # opened after the change on a path through it, or `earlier_id`
    earlier_id: int | None  # open before with the same symptom, and going on
    # Whether it opens no incident, for want of tests before it.
    is_too_early: bool = False

    @property
    def value(self) -> str:
        pair = f"{self.source}:{self.destination}"
        return pair if self.changed == "path" else f"{self.changed}:{pair}"

    @property
    def title(self) -> str:
        name = f"{self.source} → {self.destination}"
        return f"link {name}" if self.changed == "link" else name

    @property
    def took(self) -> str | None:
        if self.incident is None:
            return None
        return duration_text((self.incident.at - self.changed_at).total_seconds())


@dataclass(frozen=True, slots=True)
class LabView:
    """Differences from the scenario, latest first."""

    title: str
    pairs: tuple[tuple[str, str], ...]
    broken: tuple[BrokenPath, ...]
    sites: tuple[str, ...]
    sites_down: tuple[BrokenPath, ...]
    is_cut_off: bool  # its sites do not reach the centre
    cut_off_at: datetime | None
    expected: tuple[Expectation, ...]
    has_routers: bool
    probes_command: str
    run_dir_option: str


class BreakForm(forms.Form):
    path = forms.ChoiceField(label="path")
    both = forms.BooleanField(label="both directions", required=False)
    loss_percent = forms.FloatField(label="loss (%)", min_value=0, max_value=100, required=False)
    delay_ms = forms.FloatField(label="one-way delay (ms)", min_value=0, max_value=MOST_DELAY_MS, required=False)
    rate_mbps = forms.FloatField(label="rate (Mbit/s)", min_value=0.001, max_value=MOST_RATE_MBPS, required=False)

    def __init__(self, pairs: tuple[tuple[str, str], ...], *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        field = self.fields["path"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(":".join(pair), " → ".join(pair)) for pair in pairs]

    def clean(self) -> None:
        if not self.errors and not self.changes:
            raise forms.ValidationError("Give a loss, a delay or a rate.")

    @property
    def changes(self) -> dict[str, float | int | None]:
        data = self.cleaned_data
        loss_percent = data.get("loss_percent")
        given = {
            "loss_ratio": None if loss_percent is None else loss_percent / 100,
            "delay_ms": data.get("delay_ms"),
            "rate_mbps": data.get("rate_mbps"),
        }
        return {name: value for name, value in given.items() if value is not None}

    @property
    def requests(self) -> list[control.SetRequest]:
        pair = tuple(self.cleaned_data["path"].split(":"))
        pairs = (pair, pair[::-1]) if self.cleaned_data["both"] else (pair,)
        return [control.SetRequest(source=a, destination=b, changes=self.changes) for a, b in pairs]


def load_lab(run_dir: Path, now: datetime, path: str = "") -> LabView:
    """Load the page, with the incident expected on `path`, as `cern:slac`. Raises `probes.lab.settings.LabError`."""
    status = control.ask_status(run_dir)
    pairs = tuple(sorted((each.source, each.destination) for each in status.paths))
    chosen = next((pair for pair in pairs if ":".join(pair) == path), pairs[0])
    return LabView(
        title=status.lab.title,
        pairs=pairs,
        broken=tuple(sorted(_changes(status, now), key=lambda change: change.changed_at, reverse=True)),
        sites=tuple(sorted({source for source, _ in pairs})),
        sites_down=tuple(_down(site, status, now) for site in sites.sites_down(status)),
        is_cut_off=status.centre == "down",
        cut_off_at=status.cut_off_at,
        expected=tuple(examples(status.paths, chosen, now)),
        has_routers=bool(status.routes),
        probes_command=probes_command(),
        run_dir_option=breaks.run_dir_option(run_dir, default_data()),
    )


def change_site(run_dir: Path, name: str, *, is_down: bool) -> None:
    """Raises `LabError`."""
    status = control.ask_status(run_dir)
    site = resolve_site(name, {path.source for path in status.paths})
    for request in sites.site_requests(status, site, is_down=is_down):
        control.ask(run_dir, request)


def connect_centre(run_dir: Path) -> None:
    """Raises `LabError`."""
    control.ask(run_dir, control.CentreRequest(up=True))


def expected_now(run_dir: Path, now: datetime, path: str, site: str) -> list[Expectation]:
    """Effects of present faults and routes of a path, both ways, or of a site. Raises `LabError`."""
    status = control.ask_status(run_dir)
    ends = tuple(path.split(":"))
    broken = [
        each
        for each in breaks.broken_paths(status)
        if {each.source, each.destination} == set(ends) or site in (each.source, each.destination)
    ]
    of_routes = expected_of_routes(status, (ends[0], ends[1]), now) if len(ends) == 2 else []
    return [*expected_of(broken, now), *of_routes]


def undo(run_dir: Path, value: str) -> None:
    """Restore a path, link or route, if changed. Raises `LabError`."""
    status = control.ask_status(run_dir)
    for path in breaks.broken_paths(status):
        if f"{path.source}:{path.destination}" == value:
            control.ask(run_dir, breaks.undo_request(path))
    for link in breaks.broken_links(status):
        if f"link:{link.source}:{link.destination}" == value:
            control.ask(run_dir, breaks.undo_request(link, is_link=True))
    for route in breaks.changed_routes(status):
        if f"route:{route.source}:{route.destination}" == value:
            restored = RouteRequest(source=route.source, destination=route.destination, routes=None, is_one_way=True)
            control.ask(run_dir, restored)


def _changes(status: control.LabStatus, now: datetime) -> Iterator[BrokenPath]:
    down = set(sites.sites_down(status))
    paths = [path for path in breaks.broken_paths(status) if not _is_of_site(path, down)]
    too_early = too_early_paths(paths, now) if paths else set()
    for path in paths:
        pair = (path.source, path.destination)
        text, symptoms = breaks.difference_text(path), symptoms_of(path)
        change = _broken("path", pair, text, path.changed_at or now, [pair], symptoms, now)
        yield replace(change, is_too_early=pair in too_early)
    for link in breaks.broken_links(status):
        pair = (link.source, link.destination)
        through = [(route.source, route.destination) for route in status.routes if pair in _links_of(route)]
        text, symptoms = breaks.difference_text(link), symptoms_of(link)
        yield _broken("link", pair, text, link.changed_at or now, through, symptoms, now)
    for route in breaks.changed_routes(status):
        pair = (route.source, route.destination)
        text = "route " + " or ".join(", ".join(way) or "direct" for way in route.routes)
        yield _broken("route", pair, text, route.changed_at or now, [pair], OF_A_ROUTE, now)


def _is_of_site(path: PathStatus, down: set[str]) -> bool:
    return not down.isdisjoint((path.source, path.destination)) and symptoms_of(path) == {FaultSymptom.LOSS}


def _down(site: str, status: control.LabStatus, now: datetime) -> BrokenPath:
    paths = [path for path in breaks.broken_paths(status) if _is_of_site(path, {site})]
    changed_at = max((path.changed_at for path in paths if path.changed_at is not None), default=now)
    pairs = [(path.source, path.destination) for path in paths]
    return _broken("site", (site, ""), "", changed_at, pairs, {FaultSymptom.LOSS}, now)


def _links_of(route: RouteStatus) -> set[tuple[str, str]]:
    ways = (*route.routes, *route.original)
    return {link for way in ways for link in pairwise((route.source, *way, route.destination))}


def _broken(
    changed: Literal["path", "link", "route", "site"],
    pair: tuple[str, str],
    text: str,
    changed_at: datetime,
    paths: Collection[tuple[str, str]],
    symptoms: Collection[FaultSymptom],
    now: datetime,
) -> BrokenPath:
    incidents = [incident_between_sites(*path, since=changed_at) for path in paths]
    since = min((incident for incident in incidents if incident is not None), key=lambda each: each.at, default=None)
    return BrokenPath(
        changed=changed,
        source=pair[0],
        destination=pair[1],
        text=text,
        changed_at=changed_at,
        waited=duration_text((now - changed_at).total_seconds()),
        incident=since,
        earlier_id=earlier_incident(paths, symptoms) if since is None else None,
    )

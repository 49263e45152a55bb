"""The data of a site's page: contact, state of its agent, paths in both directions, completeness of the last week,
incidents, annotations, links.

In: a site's name, a stretch of time and a packet size. Out: a `SiteView` for the template. The worst paths come first:
open incidents, then total loss, then most loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from monitor.alerts.incidents import listing
from monitor.alerts.models import Incident
from monitor.analysis import figures
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.operation import completeness
from monitor.archive.queries.paths import PathSummary, measured_packet_sizes, path_summaries
from monitor.archive.queries.throughput.series import PathThroughput, throughput_summaries
from monitor.mesh.models import Path, Site
from monitor.overview.annotations.of_site import SiteAnnotation, site_annotations
from monitor.overview.grid import GridPeriod, choose_packet_bytes, load_grid
from monitor.overview.links.use import LinkUse, link_uses
from monitor.overview.measures import MEASURES
from monitor.overview.path_figures import FigureState, PathFigures, figures_of
from monitor.web.labels import STATE_STYLES, state_label
from monitor.web.pages.completeness.load import DAY, DayCell, cell_of
from monitor.web.pages.grid import cells
from monitor.web.pages.sites.load import SiteCard, load_sites
from monitor.web.request.window import ShownPeriod

DAYS = 7
INCIDENTS_SHOWN = 10
RANK_TOTAL_LOSS = 2.0
BEHIND_NAT = "behind NAT"


@dataclass(frozen=True, slots=True)
class DirectionSummary:
    """A direction between two sites: its figures in words, and the class of its loss. `is_now` says whether the loss is
    that of an open incident now, as in the grid, not that of the period."""

    path: Path
    style: str
    loss: str
    rtt: str
    estimate: str
    throughput: str
    has_incident: bool
    has_outage: bool
    rank: float
    is_now: bool = False


@dataclass(frozen=True, slots=True)
class Peer:
    """Another site over one family of addresses; an unmeasured direction is None."""

    site: Site
    family: int
    out: DirectionSummary | None
    back: DirectionSummary | None

    @property
    def is_it_behind_nat(self) -> bool:
        """Whether its own tests come from behind NAT."""
        return self.back is not None and self.back.path.source.behind_nat

    @property
    def are_we_behind_nat(self) -> bool:
        return self.out is not None and self.out.path.source.behind_nat

    @property
    def rank(self) -> float:
        """Rank of the worse direction."""
        return max(way.rank for way in (self.out, self.back) if way is not None)


@dataclass(frozen=True, slots=True)
class SiteLink:
    """The use of a link, and a path whose page has its charts."""

    path: Path
    use: LinkUse


@dataclass(frozen=True, slots=True)
class SiteView:
    """The data of the template. `card` is None for a site without an agent."""

    site: Site
    shown: ShownPeriod
    packet_bytes: int
    packet_sizes: tuple[int, ...]
    card: SiteCard | None
    peers: tuple[Peer, ...]
    days: tuple[tuple[date, DayCell], ...]
    open_incidents: tuple[Incident, ...]
    past_incidents: tuple[Incident, ...]
    annotations: tuple[SiteAnnotation, ...]
    links: tuple[SiteLink, ...]


def load_site(name: str, shown: ShownPeriod, packet_bytes: int | None, now: datetime) -> SiteView:
    """The page of a site. Raises `Site.DoesNotExist` and `monitor.overview.grid.UnknownChoice`."""
    site = Site.objects.get(name=name)
    sizes = tuple(measured_packet_sizes())
    size = choose_packet_bytes(sizes, packet_bytes)
    lasting = listing.incidents(listing.IncidentFilter(site=name))
    paths = _paths_of(site)
    return SiteView(
        site=site,
        shown=shown,
        packet_bytes=size,
        packet_sizes=sizes,
        card=next((card for card in load_sites(now).cards if card.site == site), None),
        peers=_peers(site, paths, shown, size, lasting, now),
        days=_days(site, now),
        open_incidents=tuple(lasting[:INCIDENTS_SHOWN]),
        past_incidents=tuple(
            listing.incidents(
                listing.IncidentFilter(which=listing.StateFilter.RESOLVED, site=name), limit=INCIDENTS_SHOWN
            )
        ),
        annotations=site_annotations(site, paths, size, now),
        links=_links(site, paths, now),
    )


def _links(site: Site, paths: Sequence[Path], now: datetime) -> tuple[SiteLink, ...]:
    """The links that the agent of a site reads. An interface that several paths share is listed with the first."""
    own = {path.pk: path for path in paths if path.source.site == site}
    links: dict[tuple[object, ...], SiteLink] = {}
    for use in link_uses(list(own), {}, now):
        path, read = own[use.path_id], use.newest
        place = (use.path_id, use.test) if read is None else (path.source.pk, read.router, read.interface)
        links.setdefault(place, SiteLink(path, use))
    return tuple(links.values())


def _paths_of(site: Site) -> list[Path]:
    """The paths in use from a site, then those to it."""
    in_use = Path.objects.in_use()
    return [*in_use.filter(source__site=site), *in_use.filter(destination__site=site)]


def _peers(
    site: Site,
    of_site: Sequence[Path],
    shown: ShownPeriod,
    packet_bytes: int,
    lasting: Sequence[Incident],
    now: datetime,
) -> tuple[Peer, ...]:
    ids = [path.pk for path in of_site]
    summaries = {
        summary.path_id: summary
        for summary in path_summaries(shown.since, shown.until, packet_bytes=packet_bytes, path_ids=ids)
    }
    tests = {summary.path_id: summary for summary in throughput_summaries(shown.since, shown.until, path_ids=ids)}
    troubled = {entry.path_id for incident in lasting for entry in incident.paths.all() if not entry.is_over}
    places = [(pk, site.name, site.name, 0, None, False) for pk in ids]
    states = {path.path_id: path for path in figures_of(places, summaries.values(), shown.since, shown.until)}
    ways = {
        path.pk: _way(path, states[path.pk], summaries.get(path.pk), tests.get(path.pk), path.pk in troubled)
        for path in of_site
    }
    ways |= _now_under_incidents({key: ways[key] for key in troubled & ways.keys()}, packet_bytes, lasting, now)
    ends: dict[tuple[Site, int], list[DirectionSummary | None]] = {}
    for path in of_site:
        is_out = path.source.site == site
        other = path.destination.site if is_out else path.source.site
        pair = ends.setdefault((other, path.family), [None, None])
        way = ways[path.pk]
        place = 0 if is_out else 1
        worse = pair[place]
        pair[place] = way if worse is None or way.rank > worse.rank else worse
    peers = [Peer(other, family, out, back) for (other, family), (out, back) in ends.items() if other != site]
    return tuple(sorted(peers, key=lambda peer: (-peer.rank, peer.site.name, peer.family)))


def _way(
    path: Path, state: PathFigures, summary: PathSummary | None, tests: PathThroughput | None, has_incident: bool
) -> DirectionSummary:
    throughput = "–" if tests is None else figures.bit_rate(tests.throughput_median_bps)
    if path.destination.behind_nat:
        return DirectionSummary(path, "", BEHIND_NAT, "–", "–", throughput, has_incident, False, 3.0 * has_incident)
    if summary is None or not state.has_figure:
        rank = RANK_TOTAL_LOSS if state.state is FigureState.TOTAL_LOSS else -1.0
        style = STATE_STYLES[state.state]
        return DirectionSummary(
            path, style, state_label(state), "–", "–", throughput, has_incident, False, 3.0 * has_incident + rank
        )
    floor = "≥ " if summary.estimate_is_floor else ""
    ratio = summary.lost / summary.sent
    return DirectionSummary(
        path=path,
        style=MEASURES[Metric.LOSS].style(ratio if state.loss_lower_ratio is None else state.loss_lower_ratio),
        loss=figures.loss(summary.lost, summary.sent),
        rtt=figures.milliseconds(summary.rtt_median_ms),
        estimate=floor + figures.bit_rate(summary.estimate_bps),
        throughput=throughput,
        has_incident=has_incident,
        has_outage=state.has_outage and not has_incident,
        rank=3.0 * has_incident + ratio,
    )


def _now_under_incidents(
    troubled: dict[int, DirectionSummary], packet_bytes: int, lasting: Sequence[Incident], now: datetime
) -> dict[int, DirectionSummary]:
    """The directions under an open incident of loss, with the loss in the grid of now."""
    if not troubled:
        return {}
    grid = load_grid(
        Metric.LOSS, GridPeriod.NOW, now, packet_bytes=packet_bytes, path_ids=list(troubled), lasting=lasting
    )
    measure = cells.measure_of_grid(grid)
    return {
        path.path_id: replace(
            troubled[path.path_id],
            style=cells.cell_style(grid, measure, path),
            loss=cells.cell_text(grid, path),
            rank=3.0 + (RANK_TOTAL_LOSS if path.state is FigureState.TOTAL_LOSS else path.value or 0.0),
            is_now=True,
        )
        for path in grid.figures
        if path.incident_id is not None and path.incident_peak is not None
    }


def _days(site: Site, now: datetime) -> tuple[tuple[date, DayCell], ...]:
    """The last days (UTC), the newest first."""
    until = now.date() + DAY
    by_day = {
        came.day: (came, covered)
        for came, covered in completeness.days_of_sites(until - DAYS * DAY, until, now)
        if came.site_id == site.pk
    }
    days = [until - timedelta(days=number) for number in range(1, DAYS + 1)]
    return tuple((day, cell_of(by_day.get(day), runs=day == now.date())) for day in days)

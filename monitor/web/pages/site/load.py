"""Load a site's page; paths are ordered by open incident, total loss, most loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from monitor.alerts.incidents import listing
from monitor.alerts.models import Incident
from monitor.archive.queries.operation import completeness
from monitor.archive.queries.paths import measured_packet_sizes
from monitor.mesh.models import Path, Site
from monitor.overview.annotations.of_site import SiteAnnotation, site_annotations
from monitor.overview.grid import choose_packet_bytes
from monitor.overview.links.use import LinkUse, link_uses
from monitor.web.pages.completeness.load import DAY, DayCell, cell_of
from monitor.web.pages.site import directions
from monitor.web.pages.site.directions import DirectionSummary
from monitor.web.pages.sites.load import SiteCard, load_sites
from monitor.web.request.window import ShownPeriod

DAYS = 7
INCIDENTS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Peer:
    """An unmeasured direction is None."""

    site: Site
    family: int
    out: DirectionSummary | None
    back: DirectionSummary | None

    @property
    def is_it_behind_nat(self) -> bool:
        return self.back is not None and self.back.path.source.behind_nat

    @property
    def are_we_behind_nat(self) -> bool:
        return self.out is not None and self.out.path.source.behind_nat

    @property
    def rank(self) -> float:
        return max(way.rank for way in (self.out, self.back) if way is not None)


@dataclass(frozen=True, slots=True)
class SiteLink:
    path: Path
    use: LinkUse


@dataclass(frozen=True, slots=True)
class SiteView:
    site: Site
    shown: ShownPeriod
    packet_bytes: int
    packet_sizes: tuple[int, ...]
    card: SiteCard | None  # None for a site without an agent
    peers: tuple[Peer, ...]
    days: tuple[tuple[date, DayCell], ...]
    open_incidents: tuple[Incident, ...]
    past_incidents: tuple[Incident, ...]
    annotations: tuple[SiteAnnotation, ...]
    links: tuple[SiteLink, ...]


def load_site(name: str, shown: ShownPeriod, packet_bytes: int | None, now: datetime) -> SiteView:
    """Raises `Site.DoesNotExist` and `monitor.overview.grid.UnknownChoice`."""
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
    """Links that a site's agent reads."""
    own = {path.pk: path for path in paths if path.source.site == site}
    links: dict[tuple[object, ...], SiteLink] = {}
    for use in link_uses(list(own), {}, now):
        path, read = own[use.path_id], use.newest
        place = (use.path_id, use.test) if read is None else (path.source.pk, read.router, read.interface)
        # An interface that several paths share is listed with the first.
        links.setdefault(place, SiteLink(path, use))
    return tuple(links.values())


def _paths_of(site: Site) -> list[Path]:
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
    ways = directions.load_ways(of_site, shown, packet_bytes, lasting, now)
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


def _days(site: Site, now: datetime) -> tuple[tuple[date, DayCell], ...]:
    until = now.date() + DAY
    by_day = {
        came.day: (came, covered)
        for came, covered in completeness.days_of_sites(until - DAYS * DAY, until, now)
        if came.site_id == site.pk
    }
    days = [until - timedelta(days=number) for number in range(1, DAYS + 1)]
    return tuple((day, cell_of(by_day.get(day), runs=day == now.date())) for day in days)

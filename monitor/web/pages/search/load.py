"""Search pages, sites, hosts, paths, incidents and reports: "slac cern", "slac → cern", "192.0.2.1", "#12", "2026-W47".

The number of queries does not depend on the mesh's size; paths are sought between a bounded number of hosts.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Case, F, Q, QuerySet, Value, When
from django.urls import reverse

from monitor.alerts.models import Incident, IncidentPath
from monitor.mesh.models import Host, Path, Site
from monitor.reports.files import written_reports
from monitor.web import navigation
from monitor.web.templatetags.figures import headline_in_zone

LONGEST_TEXT = 200
# Hosts searched for either end of a path, the closest first.
MOST_ENDS = 50
# Incidents searched by words; all of them are found by number.
NEWEST_INCIDENTS = 2000
MOST_WORDS = 6
_ARROW = re.compile(r"\s*(?:<->|->|→|↔|⇄|>)\s*|\s+to\s+", re.IGNORECASE)
_NUMBER = re.compile(r"(?:#|incident\s+#?)?(\d{1,9})", re.IGNORECASE)
EXACT, PREFIX, WITHIN = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Hit:
    kind: str
    label: str
    detail: str
    address: str
    is_exact: bool


def search(text: str, limit: int) -> list[Hit]:
    """Find at most `limit` hits of each kind, closest first."""
    text = " ".join(text[:LONGEST_TEXT].split())
    if not text:
        return []
    hits = [*_pages(text), *_incident_by_number(text)]
    ends = _ends(text)
    if ends is None:
        hits += [*_sites(text, limit), *_hosts(text, limit), *_paths_at(text, limit)]
    else:
        # Two words may also be the title of a site.
        hits += [*_sites(text, limit), *_paths_between(*ends, limit)]
    return [*hits, *_incidents(ends or tuple(text.split()[:MOST_WORDS]), limit), *_reports(text, limit)]


def only_exact(hits: Sequence[Hit]) -> str | None:
    addresses = {hit.address for hit in hits if hit.is_exact}
    return addresses.pop() if len(addresses) == 1 else None


def _ends(text: str) -> tuple[str, str] | None:
    parts = [part.strip() for part in _ARROW.split(text)]
    if len(parts) == 1:
        parts = text.replace(",", " ").split()
    return (parts[0], parts[1]) if len(parts) == 2 and all(parts) else None


def _pages(text: str) -> list[Hit]:
    lowered = text.lower()
    pages = [page for page in (*navigation.DAILY, *navigation.MORE) if page.label.lower().startswith(lowered)]
    return [Hit("Page", page.label, "", reverse(page.name), page.label.lower() == lowered) for page in pages]


def _ranked(fields: Iterable[str], text: str) -> tuple[Q, Case]:
    contains, starts, equals = Q(), Q(), Q()
    for field in fields:
        contains |= Q(**{f"{field}__icontains": text})
        starts |= Q(**{f"{field}__istartswith": text})
        equals |= Q(**{f"{field}__iexact": text})
    return contains, Case(When(equals, then=Value(EXACT)), When(starts, then=Value(PREFIX)), default=Value(WITHIN))


def _sites(text: str, limit: int) -> list[Hit]:
    contains, rank = _ranked(("name", "title"), text)
    sites = Site.objects.in_use().filter(contains).annotate(rank=rank).order_by("rank", "name")[:limit]
    return [Hit("Site", site.name, site.title, reverse("site", args=[site.name]), site.rank == EXACT) for site in sites]


def _hosts(text: str, limit: int) -> list[Hit]:
    text = _address(text)
    contains, rank = _ranked(("name", "address"), text)
    hosts = Host.objects.in_use().filter(contains).filter(Q(address__icontains=text) | ~Q(name=F("site__name")))
    rows = hosts.select_related("site").annotate(rank=rank).order_by("rank", "name")[:limit]
    return [
        Hit(
            "Host",
            host.name,
            f"{host.address}, site {host.site.name}",
            reverse("site", args=[host.site.name]),
            host.rank == EXACT,
        )
        for host in rows
    ]


def _hosts_matching(text: str) -> dict[int, int]:
    contains, rank = _ranked(("name", "address", "site__name", "site__title"), _address(text))
    hosts = Host.objects.in_use().filter(contains).annotate(rank=rank).order_by("rank", "site__name", "name")
    return dict(hosts.values_list("id", "rank")[:MOST_ENDS])


def _paths_between(source: str, destination: str, limit: int) -> list[Hit]:
    sources, destinations = _hosts_matching(source), _hosts_matching(destination)
    ranks: dict[int, tuple[bool, int]] = {}
    for is_reverse, (out, to) in enumerate(((sources, destinations), (destinations, sources))):
        rows = Path.objects.filter(retired_at=None, source__in=out, destination__in=to)
        for key, first, second in rows.values_list("id", "source_id", "destination_id"):
            ranks.setdefault(key, (bool(is_reverse), out[first] + to[second]))
    closest = sorted(ranks, key=lambda key: (ranks[key], key))[:limit]
    paths = Path.objects.with_hosts().in_bulk(closest)
    return [_path_hit(paths[key], is_exact=ranks[key] == (False, EXACT)) for key in closest if key in paths]


def _paths_at(text: str, limit: int) -> list[Hit]:
    ranks = _hosts_matching(text)
    closest = [key for key, rank in ranks.items() if rank == min(ranks.values())]
    paths: list[Path] = []
    for end, other in (("source", "destination"), ("destination", "source")):
        rows = Path.objects.in_use().filter(**{f"{end}__in": closest}).order_by(f"{other}__site__name", "id")
        paths += [] if len(paths) >= limit or not closest else rows[: limit - len(paths)]
    return [_path_hit(path, is_exact=False) for path in paths]


def _path_hit(path: Path, *, is_exact: bool) -> Hit:
    source, destination = path.source, path.destination
    detail = f"{source.address} to {destination.address}, IPv{path.family}"
    return Hit(
        "Path", f"{source.site.name} → {destination.site.name}", detail, reverse("path", args=[path.pk]), is_exact
    )


def _incident_by_number(text: str) -> list[Hit]:
    match = _NUMBER.fullmatch(text)
    incidents = [] if match is None else Incident.objects.filter(pk=int(match[1]))
    return [_incident_hit(incident, is_exact=True) for incident in incidents]


def _incidents(words: Sequence[str], limit: int) -> list[Hit]:
    newest = Incident.objects.order_by("-opened_at").values("pk")[:NEWEST_INCIDENTS]
    rows: QuerySet[Incident, Incident] = Incident.objects.filter(pk__in=newest)
    for word in words:
        at_site = Q(path__source__site__name__iexact=word) | Q(path__destination__site__name__iexact=word)
        of_site = IncidentPath.objects.filter(at_site).values("incident_id")
        rows = rows.filter(Q(cause__icontains=word) | Q(summary__icontains=word) | Q(pk__in=of_site))
    lasting_first = Case(When(closed_at=None, then=Value(0)), default=Value(1))
    return [_incident_hit(row, is_exact=False) for row in rows.order_by(lasting_first, "-opened_at")[:limit]]


def _incident_hit(incident: Incident, *, is_exact: bool) -> Hit:
    detail = f"{headline_in_zone(incident)}, {incident.state}"
    return Hit("Incident", f"Incident {incident.pk}", detail, reverse("incident", args=[incident.pk]), is_exact)


def _reports(text: str, limit: int) -> list[Hit]:
    lowered = text.lower()
    is_any = "weekly report".startswith(lowered) or "report" in lowered
    weeks = [written.week for written in written_reports() if is_any or lowered in str(written.week).lower()]
    return [
        Hit(
            "Report",
            str(week),
            f"week from {week.monday:%Y-%m-%d}",
            reverse("report", args=[week]),
            str(week).lower() == lowered,
        )
        for week in weeks[:limit]
    ]


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip("[]")))
    except ValueError:
        return text

"""Load the mesh's routes at a moment, of too many paths only those with problems."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

from django.db.models import Q

from monitor.alerts.incidents.queries import incidents_of_paths_at
from monitor.archive.queries.path_states import PathState
from monitor.archive.queries.routes.mesh_routes import MeshRoute, mesh_routes
from monitor.archive.queries.routes.routers import routers_since
from monitor.mesh.models import Host, Path, Site
from monitor.overview.path_conditions import PathCondition, conditions_at
from monitor.routes.places import HopName, of_addresses
from monitor.web.pages.routes.parts import Chain, Ends, GraphPart, PartKind, Places, block_of, chain, without_access

MOST_PATHS = 2000
# Of more sites, each region is a single part.
MOST_SITES = 40
A_DAY = timedelta(days=1)
NO_REGION = "other sites"


@dataclass(frozen=True, slots=True)
class RouteFilter:
    """Filters of the page; None is no filter."""

    site: str | None = None
    asn: int | None = None
    hop: str | None = None
    through: str | None = None
    link: tuple[str, str] | None = None

    @property
    def is_of_routes(self) -> bool:
        return any(wanted is not None for wanted in (self.asn, self.hop, self.through, self.link))


@dataclass(frozen=True, slots=True)
class RoutedPathRow:
    path_id: int
    ends: Ends
    family: int
    condition: PathCondition
    chains: tuple[str, ...]
    hops: int | None  # of the first route; None if its trace did not reach the destination
    last_at: datetime

    @property
    def has_problem(self) -> bool:
        return self.condition.state is PathState.PROBLEM


@dataclass(frozen=True, slots=True)
class MeshRoutesView:
    chains: list[Chain]
    rows: list[RoutedPathRow]
    systems: list[GraphPart]
    total: int  # paths in use
    untraced: int  # paths without a trace in the day before
    only_problems: bool  # all paths would be too many
    is_folded: bool
    start: frozenset[str]  # parts to draw on the left

    @property
    def states(self) -> dict[int, PathState]:
        return {row.path_id: row.condition.state for row in self.rows}


@dataclass(frozen=True, slots=True)
class _Paths:
    ends: dict[int, Ends]
    families: dict[int, int]
    regions: dict[str, str]


def load_routes(at: datetime, wanted: RouteFilter, opened: Collection[str]) -> MeshRoutesView:
    paths = _paths(at, wanted.site)
    incidents = incidents_of_paths_at(at)
    routes, only_problems = _routes(at, wanted, paths, incidents)
    names = of_addresses({hop for route in routes for hop in route.hops if hop is not None})
    sites, folded = _site_parts(paths, routes, wanted, opened)
    places = Places(names, sites, opened)
    chains = [
        row
        for route in routes
        if _is_through(route, names, wanted)
        for row in [chain(route, paths.ends[route.path_id], places)]
        if _is_wanted(row, wanted)
    ]
    left = {row.path_id for row in chains}
    routes = [route for route in routes if route.path_id in left]
    conditions = conditions_at(at, left, incidents)
    traced = {route.path_id for route in routes}
    return MeshRoutesView(
        chains=without_access(chains, folded) if folded else chains,
        rows=_rows(chains, routes, paths, conditions),
        systems=_systems(names.values()),
        total=len(paths.ends),
        untraced=0 if wanted.is_of_routes or only_problems else len(paths.ends) - len(traced),
        only_problems=only_problems,
        is_folded=bool(folded),
        start=frozenset() if wanted.site is None else frozenset({f"{PartKind.SITE}:{wanted.site}"}),
    )


def _paths(at: datetime, site: str | None) -> _Paths:
    """Paths in use at a moment, of a site or all."""
    # Lists, not joins: a mesh has few hosts and many paths.
    rows = Site.objects.values_list("id", "name", "region")
    site_of = {site_id: name for site_id, name, _ in rows}
    host_site = {host_id: site_of[site_id] for host_id, site_id in Host.objects.values_list("id", "site_id")}
    used = Path.objects.filter(Q(retired_at=None) | Q(retired_at__gt=at)).order_by("pk")
    ends, families = {}, {}
    for path_id, source, destination, family in used.values_list("id", "source_id", "destination_id", "family"):
        if site is None or site in (host_site[source], host_site[destination]):
            ends[path_id] = Ends(host_site[source], host_site[destination])
            families[path_id] = family
    return _Paths(ends, families, {name: region or NO_REGION for _, name, region in rows})


def _routes(
    at: datetime, wanted: RouteFilter, paths: _Paths, incidents: Mapping[int, int]
) -> tuple[list[MeshRoute], bool]:
    ids, addresses = list(paths.ends), None
    if len(ids) > MOST_PATHS and wanted.is_of_routes:
        addresses = _addresses_of(at, wanted)
    if len(ids) <= MOST_PATHS or addresses is not None:
        some = None if wanted.site is None else ids
        routes = mesh_routes(at, some, addresses=addresses, most=2 * MOST_PATHS + 1)
        if len(routes) <= 2 * MOST_PATHS:
            return [route for route in routes if route.path_id in paths.ends], False
    ids = [path_id for path_id in ids if path_id in incidents][:MOST_PATHS]
    return mesh_routes(at, ids, addresses=addresses, most=2 * MOST_PATHS), True


def _addresses_of(at: datetime, wanted: RouteFilter) -> list[str] | None:
    if wanted.hop is not None:
        return [wanted.hop]
    keys = [key.split("@")[0] for key in (wanted.through, *(wanted.link or ())) if key is not None]
    if wanted.asn is not None:
        keys = [f"{PartKind.AS}:{wanted.asn}"]
    keys = [key for key in keys if key.split(":")[0] not in (PartKind.SITE, PartKind.REGION, PartKind.SILENT)]
    if not keys:
        return None
    names = of_addresses(routers_since(at - A_DAY))
    return [
        address
        for address, name in names.items()
        if keys[0] in (block_of(address, name).key, f"{PartKind.HOP}:{address}")
    ]


def _site_parts(
    paths: _Paths, routes: Sequence[MeshRoute], wanted: RouteFilter, opened: Collection[str]
) -> tuple[dict[str, GraphPart], set[str]]:
    ends = {name for route in routes for end in [paths.ends[route.path_id]] for name in (end.source, end.destination)}
    parts = {name: GraphPart(f"{PartKind.SITE}:{name}", PartKind.SITE, name) for name in ends}
    if len(ends) <= MOST_SITES:
        return parts, set()
    folded: dict[str, list[str]] = {}
    for name in sorted(ends - {wanted.site}):
        region = f"{PartKind.REGION}:{paths.regions[name]}"
        if region in opened:
            parts[name] = replace(parts[name], block=region)
        else:
            folded.setdefault(region, []).append(name)
    for key, names in folded.items():
        label = f"{paths.regions[names[0]]}"
        detail = f"({len(names)} site{'s' if len(names) > 1 else ''})"
        parts |= dict.fromkeys(names, GraphPart(key, PartKind.REGION, label, detail))
    return parts, {name for names in folded.values() for name in names}


def _is_through(route: MeshRoute, names: Mapping[str, HopName], wanted: RouteFilter) -> bool:
    if wanted.hop is not None and wanted.hop not in route.hops:
        return False
    return wanted.asn is None or any(hop is not None and names[hop].asn == wanted.asn for hop in route.hops)


def _is_wanted(row: Chain, wanted: RouteFilter) -> bool:
    keys = [{step.part.key, step.part.block} for step in row.steps]
    if wanted.through is not None and not any(wanted.through in names for names in keys):
        return False
    if wanted.link is None:
        return True
    near, far = wanted.link
    return any((near in a and far in b) or (far in a and near in b) for a, b in pairwise(keys))


def _rows(
    chains: Iterable[Chain], routes: Iterable[MeshRoute], paths: _Paths, conditions: Mapping[int, PathCondition]
) -> list[RoutedPathRow]:
    words: dict[int, list[str]] = {}
    for row in chains:
        words.setdefault(row.path_id, []).append(row.words)
    first: dict[int, MeshRoute] = {}
    for route in routes:
        first.setdefault(route.path_id, route)
    rows = [
        RoutedPathRow(
            path_id,
            paths.ends[path_id],
            paths.families[path_id],
            conditions[path_id],
            tuple(dict.fromkeys(words[path_id])),
            len(route.hops) if route.reached else None,
            route.last_at,
        )
        for path_id, route in first.items()
    ]
    order = list(PathState)
    return sorted(rows, key=lambda row: (order.index(row.condition.state), row.ends.source, row.ends.destination))


def _systems(names: Iterable[HopName]) -> list[GraphPart]:
    systems = {
        name.asn: GraphPart(
            f"{PartKind.AS}:{name.asn}", PartKind.AS, f"AS {name.asn}", name.as_name or name.network or ""
        )
        for name in names
        if name.asn is not None
    }
    return [systems[asn] for asn in sorted(systems)]

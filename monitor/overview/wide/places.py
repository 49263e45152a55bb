"""The places of a mesh of many sites: groups, or regions where all sites are in one group."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from monitor.mesh.models import Group, Site
from monitor.overview.grid_layout import NO_PLACE

# Sites with a row and a column each; a larger grid fits on no screen.
MOST_SITES = 40


@dataclass(frozen=True, slots=True)
class SitePlaces:
    kind: str  # group or region
    names: tuple[str, ...]
    number_of: dict[int, int]  # place number by site id

    @property
    def sites(self) -> Counter[int]:
        return Counter(self.number_of.values())

    def sites_of(self, name: str) -> list[int] | None:
        """The sites of a place; None without such a place."""
        if name not in self.names:
            return None
        wanted = self.names.index(name)
        return [site_id for site_id, number in self.number_of.items() if number == wanted]


def load_places(*, more_than: int = MOST_SITES) -> SitePlaces | None:
    """The places of a mesh with more sites, else None."""
    regions = dict(Site.objects.in_use().values_list("id", "region"))
    if len(regions) <= more_than:
        return None
    groups = _smallest_groups(regions)
    kind = "group" if len(set(groups.values())) > 1 else "region"
    place_of = groups if kind == "group" else regions
    names = tuple(sorted({name or NO_PLACE for name in place_of.values()}))
    numbers = {name: number for number, name in enumerate(names)}
    return SitePlaces(kind, names, {site_id: numbers[place_of[site_id] or NO_PLACE] for site_id in regions})


def _smallest_groups(site_ids: dict[int, str]) -> dict[int, str]:
    """The smallest group of each site, of equal ones the first by name; empty if it has none."""
    rows = Group.objects.in_use().filter(sites__isnull=False).values_list("name", "sites")
    members = [(name, site_id) for name, site_id in rows if site_id in site_ids]
    sizes = Counter(name for name, _ in members)
    smallest: dict[int, str] = {}
    for name, site_id in sorted(members, key=lambda member: (sizes[member[0]], member[0])):
        smallest.setdefault(site_id, name)
    return {site_id: smallest.get(site_id, "") for site_id in site_ids}

"""Contents of mesh.toml as frozen structs: the result of `document.read`, and the input of `apply` and `expansion`.

`parameters` of a test are the fields of its spec in `probes` without the addresses. The entries of tests are in
`monitor.mesh.kinds`. Nothing is checked here. The sentence of each key in docs/reference/mesh.md is the `Doc` of its
field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

from monitor.mesh.document.addresses import Family
from probes.kinds import SLOT_KINDS

HostKind = Literal["ping", "throughput"]


@dataclass(frozen=True, slots=True)
class Doc:
    """Description of a key for the reference; `key` is its name where the field has another."""

    sentence: str
    key: str = ""


TestKind = Annotated[str, Doc("Kind of the test.")]
TestName = Annotated[str, Doc("Name, which groups refer to.")]

SHAPES: dict[str, tuple[str, ...]] = {"mesh": ("sites",), "star": ("centres", "sites"), "between": ("from", "to")}
SHAPE_DOCS = {
    "mesh": "Measures from every site to every other.",
    "star": "Measures between each centre and each site, both ways.",
    "between": "Measures from each of `from` to each of `to`, one way.",
}
MEMBERS = {
    "sites": "Sites of the group.",
    "centres": "Sites in the middle of the star.",
    "from": "Sites at which the paths start.",
    "to": "Sites at which the paths end.",
}
"""Descriptions of the shapes, and of their keys."""

ON_DEMAND = "on-demand"
"""Name of the test of on-demand slots, reserved in mesh.toml."""

HOST_KINDS: tuple[HostKind, ...] = ("ping", "throughput")
"""Kinds of tests that a host takes part in. Hosts that answer pings also answer capacity tests; hosts that measure
throughput also disk to disk."""
WITH_SLOTS = tuple(kind.name for kind in SLOT_KINDS)
"""Kinds with slots: they run alone on their hosts and need an agent at both ends."""


class TestEntry(Protocol):
    """A [[test]] table; `monitor.mesh.kinds` has the entry of each kind."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def every_s(self) -> int: ...
    @property
    def parameters(self) -> dict[str, object]: ...


@dataclass(frozen=True, slots=True)
class IntegerRange:
    """An integer from `low` to `high`, with a default and a description for the reference."""

    low: int
    high: int
    default: int | None = None
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class HostEntry:
    name: Annotated[str, Doc("Name, unique in the file. The first host of a site has the name of the site by default.")]
    address: Annotated[str, Doc("IPv4 or IPv6 address or DNS name at which the other sites reach the host.")]
    family: Annotated[Family, Doc("Address family, 4 or 6; needed for a DNS name that is to be reached over IPv6.")]
    for_ping: Annotated[bool, Doc("Kinds of tests that the host takes part in; by default both.", key="measures")]
    for_throughput: bool
    uplink: Annotated[
        str | None,
        Doc("Name of a link shared with other hosts of the site: one throughput test at a time. Default: the site's."),
    ] = None
    """Name, unique within the site, of the link shared with other hosts."""

    def measures(self, kind: str) -> bool:
        return self.for_throughput if kind in WITH_SLOTS else self.for_ping


@dataclass(frozen=True, slots=True)
class SiteEntry:
    name: Annotated[str, Doc("Name, which identifies the site for good: a new name is a new site.")]
    title: Annotated[str, Doc("Name on the pages. Default: the name.")]
    latitude_deg: Annotated[float, Doc("Latitude; north is positive.")]
    longitude_deg: Annotated[float, Doc("Longitude; east is positive.")]
    country: Annotated[str, Doc('ISO 3166 alpha-2 code, such as "CH".')]
    region: Annotated[str, Doc("Region, free text; PingER's table can be shown by region.")]
    has_agent: Annotated[bool, Doc("Whether an agent runs at the site. Without an agent it only answers.", key="agent")]
    hosts: tuple[HostEntry, ...]
    contact: Annotated[str, Doc("Contact for problems, shown on the page of the site.")] = ""


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """`members` has the site names of each key of the shape, as `SHAPES` lists them."""

    name: Annotated[str, Doc("Name, which alerts, service levels and pages refer to.")]
    shape: Annotated[str, Doc("Which pairs of sites are measured.")]
    members: Mapping[str, tuple[str, ...]]
    tests: Annotated[tuple[str, ...], Doc("Names of the tests that run on every pair of the group.")]

    @property
    def sites(self) -> tuple[str, ...]:
        """All sites of the group, without duplicates."""
        return tuple(dict.fromkeys(name for names in self.members.values() for name in names))


@dataclass(frozen=True, slots=True)
class MeshDocument:
    """`alerts`, `service_levels` and `budgets` are the checked tables [alerts], [service_level] and [budget]; the
    modules `alert_rules`, `service_levels` and `budgets` interpret them."""

    name: Annotated[str, Doc("Name of the mesh on the pages.")]
    home: Annotated[str | None, Doc("Site whose agent `manage.py up` runs.")]
    sites: tuple[SiteEntry, ...]
    tests: tuple[TestEntry, ...]
    groups: tuple[GroupEntry, ...]
    alerts: Mapping[str, Any]
    service_levels: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    budgets: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)

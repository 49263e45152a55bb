"""Tables of mesh.toml as frozen structs, with types, bounds, defaults and descriptions.

A test's `parameters` are the fields of its spec in `probes`, without addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Annotated, Any, Literal, Protocol

from msgspec import Meta, Struct, field

from monitor.mesh.document import addresses, countries
from monitor.mesh.document.addresses import Family
from probes.kinds import SLOT_KINDS
from probes.toml.keys import DISTINCT, NOT_EMPTY, Text, check, meaning, must_be

# Hosts that answer pings also answer capacity tests; hosts that measure throughput also measure disk to disk.
HostKind = Literal["ping", "throughput"]

_ENDS = "beginning and ending with a letter or digit"
Name = Annotated[
    str,
    must_be(f'small letters, digits, "-", "_" and ".", {_ENDS}', r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?"),
]
SiteName = Annotated[str, must_be(f'small letters, digits and "-", {_ENDS}', r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")]
SiteNames = Annotated[tuple[str, ...], NOT_EMPTY, DISTINCT]
SITES_EXAMPLE = "[ … ] (the names of sites)"
TestName = Annotated[Name, meaning("Name, which groups refer to.", '"…"')]

UPLINK = "one throughput test at a time"

ON_DEMAND = "on-demand"
ON_DEMAND_AGGREGATE = "on-demand-aggregate"
# Names of the tests of on-demand slots, reserved in mesh.toml.
RESERVED_TESTS = (ON_DEMAND, ON_DEMAND_AGGREGATE)

# Kinds with slots run alone on their hosts and need an agent at both ends.
WITH_SLOTS = tuple(kind.name for kind in SLOT_KINDS)


class TestEntry(Protocol):
    """A [[test]] table; `monitor.mesh.kinds` has the struct of each kind."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def every_s(self) -> int: ...
    @property
    def parameters(self) -> dict[str, object]: ...
    @property
    def host_pairs(self) -> tuple[tuple[str, str], ...]: ...


class TestKeys(Struct, frozen=True, tag_field="kind"):
    """Base of the structs of [[test]] tables; their tag is the kind."""

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)

    @property
    def host_pairs(self) -> tuple[tuple[str, str], ...]:
        """Sender and receiver of each pair named by the test itself, which has no group."""
        return ()


class MeshKeys(Struct, frozen=True, kw_only=True):
    """The [mesh] table."""

    name: Annotated[Text, meaning("Name of the mesh on the pages.", '"…" (what the pages show)')]
    home: Annotated[Text, meaning("Site whose agent `manage.py up` runs.")] | None = None


PublicPort = Annotated[int, Meta(ge=1, le=65_535)]


def _fault_of_optional(address: str | None) -> str | None:
    return None if address is None else addresses.fault(address)


class PeerEntry(Struct, frozen=True, kw_only=True):
    """A [[site.host.peer]] table: the addresses of the host on the paths from and to some sites."""

    sites: Annotated[SiteNames, meaning("Sites for which these addresses hold.", SITES_EXAMPLE)]
    address: Annotated[
        Text | None,
        check(_fault_of_optional),
        meaning("Address at which these sites reach the host. Default: the host's."),
    ] = None
    source: Annotated[
        Text | None,
        check(_fault_of_optional),
        meaning("Address from which the host sends to these sites, such as its own behind NAT. Default: `address`."),
    ] = None


class HostEntry(Struct, frozen=True, kw_only=True):
    """A [[site.host]] table. The reader fills in the name, family and uplink that follow from other keys."""

    name: Annotated[
        Name, meaning("Name, unique in the file. The first host of a site has the name of the site by default.")
    ] = ""
    address: Annotated[
        Text,
        check(addresses.fault),
        meaning(
            "IPv4 or IPv6 address or DNS name at which the other sites reach the host.",
            '"…" (an IP address or a DNS name)',
        ),
    ]
    family: Annotated[
        Family, meaning("Address family, 4 or 6; needed for a DNS name that is to be reached over IPv6.")
    ] = 4
    kinds: Annotated[
        tuple[HostKind, ...],
        NOT_EMPTY,
        DISTINCT,
        meaning("Kinds of tests that the host takes part in; by default both."),
    ] = field(name="measures", default=("ping", "throughput"))
    uplink: Annotated[
        Name | None, meaning(f"Name of a link shared with other hosts of the site: {UPLINK}. Default: the site's.")
    ] = None
    interface: Annotated[
        Text | None,
        meaning(
            "Interface or VRF by which its pings, TCP handshakes and STAMP packets leave, and STAMP packets to it are "
            "answered. Default: by the routes."
        ),
    ] = None
    namespace: Annotated[
        Text | None,
        meaning(
            "Network namespace from which its pings, TCP handshakes and STAMP packets are sent, and STAMP packets to "
            "it are answered (`ip netns`)."
        ),
    ] = None
    iperf3_ports: Annotated[
        tuple[PublicPort, PublicPort] | None,
        meaning(
            "First and last port of a public iperf3 server, at a site without an agent. Throughput tests to it need no "
            "agent there."
        ),
    ] = None
    behind_nat: Annotated[
        bool,
        meaning(
            "Whether it is behind NAT, or a firewall, that lets nothing in: nothing is sent to it first, and it is the "
            "end of throughput tests that connects."
        ),
    ] = False
    peers: Annotated[tuple[PeerEntry, ...], meaning("Other addresses of the host for some sites.")] = field(
        name="peer", default=()
    )

    @property
    def for_ping(self) -> bool:
        return "ping" in self.kinds

    @property
    def for_throughput(self) -> bool:
        return "throughput" in self.kinds

    @property
    def peer_addresses(self) -> list[dict[str, object]]:
        """`peers` for the database; only set keys."""
        return [
            {"sites": list(peer.sites)}
            | {key: value for key in ("address", "source") if (value := getattr(peer, key)) is not None}
            for peer in self.peers
        ]

    def measures(self, kind: str) -> bool:
        return self.for_throughput if kind in WITH_SLOTS else self.for_ping


class SiteEntry(Struct, frozen=True, kw_only=True):
    """A [[site]] table. The reader gives a site without a title its name as title."""

    name: Annotated[
        SiteName,
        meaning(
            "Name, which identifies the site: a new name is a new site, unless `formerly` has the earlier one.",
            '"…" (in small letters, digits and "-")',
        ),
    ]
    formerly: Annotated[
        tuple[SiteName, ...],
        DISTINCT,
        meaning("Earlier names of the site, under which its history and links to its pages go on.", '["…"]'),
    ] = ()
    title: Annotated[Text, meaning("Name on the pages. Default: the name.")] = ""
    latitude_deg: Annotated[float, Meta(ge=-90, le=90), meaning("Latitude; north is positive.", "46.2 (degrees north)")]
    longitude_deg: Annotated[
        float, Meta(ge=-180, le=180), meaning("Longitude; east is positive.", "6.1 (degrees east)")
    ]
    country: Annotated[
        Text,
        check(countries.fault),
        meaning('ISO 3166 alpha-2 code, such as "CH".', '"CH" (its ISO 3166 code)'),
    ]
    region: Annotated[Text, meaning("Region, free text; PingER's table can be shown by region.")] = ""
    contact: Annotated[Text, meaning("Contact for problems, shown on the page of the site.")] = ""
    has_agent: Annotated[bool, meaning("Whether an agent runs at the site. Without an agent it only answers.")] = field(
        name="agent", default=True
    )
    uplink: Annotated[Name | None, meaning(f"Name of the link that all hosts of the site share: {UPLINK}.")] = None
    hosts: Annotated[
        tuple[HostEntry, ...], meaning("Hosts of the site.", '[[site.host]] and address = "…" below it')
    ] = field(name="host")


class GroupEntry(Struct, frozen=True, kw_only=True, tag_field="shape"):
    """A [[group]] table; a subclass has the keys of its shape."""

    name: Annotated[Name, meaning("Name, which alerts, service levels and pages refer to.", '"…"')]
    tests: Annotated[
        tuple[str, ...],
        NOT_EMPTY,
        DISTINCT,
        meaning("Names of the tests that run on every pair of the group.", "[ … ] (the names of tests)"),
    ]

    @property
    def shape(self) -> str:
        return str(self.__struct_config__.tag)

    @property
    def site_names(self) -> tuple[str, ...]:
        keys = (key for key in self.__struct_fields__ if key not in GroupEntry.__struct_fields__)
        return tuple(dict.fromkeys(name for key in keys for name in getattr(self, key)))

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Ordered pairs (source, destination), possibly equal or repeated."""
        raise NotImplementedError


class MeshGroup(GroupEntry, frozen=True, kw_only=True, tag="mesh"):
    """Measures from every site to every other."""

    sites: Annotated[SiteNames, meaning("Sites of the group.", SITES_EXAMPLE)]

    def pairs(self) -> Iterator[tuple[str, str]]:
        return product(self.sites, self.sites)


class StarGroup(GroupEntry, frozen=True, kw_only=True, tag="star"):
    """Measures between each centre and each site, both ways."""

    centres: Annotated[SiteNames, meaning("Sites in the middle of the star.", SITES_EXAMPLE)]
    sites: Annotated[SiteNames, meaning("Sites of the group.", SITES_EXAMPLE)]

    def pairs(self) -> Iterator[tuple[str, str]]:
        for spoke in product(self.centres, self.sites):
            yield from (spoke, spoke[::-1])


class BetweenGroup(GroupEntry, frozen=True, kw_only=True, tag="between"):
    """Measures from each of `from` to each of `to`, one way."""

    sources: Annotated[SiteNames, meaning("Sites at which the paths start.", SITES_EXAMPLE)] = field(name="from")
    destinations: Annotated[SiteNames, meaning("Sites at which the paths end.", SITES_EXAMPLE)] = field(name="to")

    def pairs(self) -> Iterator[tuple[str, str]]:
        return product(self.sources, self.destinations)


class MeshDocument(Struct, frozen=True, dict=True):
    """Contents of mesh.toml."""

    name: str
    home: str | None
    sites: tuple[SiteEntry, ...]
    tests: tuple[TestEntry, ...]
    groups: tuple[GroupEntry, ...]
    alerts: Mapping[str, Any]  # keys set in [alerts], for `alert_rules`
    service_levels: Mapping[str, Any] = field(default_factory=dict)  # keys set in [service_level]
    budgets: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # keys set in [budget]
    networks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # name and AS number by prefix
    sweeps: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # keys of each [[sweep]] by its name

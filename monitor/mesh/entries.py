"""Contents of mesh.toml as frozen structs: the result of `document.read`, and the input of `apply` and `expansion`.

`parameters` of a test are the fields of its spec in `probes` without the addresses. Nothing is checked here. The
sentence of each key in docs/reference/mesh.md is the `Doc` of its field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from monitor.mesh.addresses import Family

Kind = Literal["ping", "throughput", "capacity", "disk-to-disk"]
HostKind = Literal["ping", "throughput"]


@dataclass(frozen=True, slots=True)
class Doc:
    """Description of a key for the reference; `key` is its name where the field has another."""

    sentence: str
    key: str = ""


SHAPES: dict[str, tuple[str, ...]] = {"mesh": ("sites",), "star": ("centres", "sites"), "between": ("from", "to")}
TestKind = Annotated[Kind, Doc("Kind of the test.")]

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

PRIMING_BYTES = 56
"""Size of the priming request, as in PingER."""

ON_DEMAND = "on-demand"
"""Name of the test of on-demand slots, reserved in mesh.toml."""

KINDS: tuple[Kind, ...] = ("ping", "throughput", "capacity", "disk-to-disk")
HOST_KINDS: tuple[HostKind, ...] = ("ping", "throughput")
"""Kinds of tests that a host takes part in. Hosts that answer pings also answer capacity tests; hosts that measure
throughput also disk to disk."""
WITH_SLOTS: tuple[Kind, ...] = ("throughput", "disk-to-disk")
"""Kinds with slots: they run alone on their hosts and need an agent at both ends."""


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

    def measures(self, kind: Kind) -> bool:
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
class PingEntry:
    name: Annotated[str, Doc("Name, which groups refer to.")]
    every_s: Annotated[int, Doc("Interval between cycles. Cycles start at multiples of it in UTC.")]
    count: Annotated[int, Doc("Echo requests per cycle and packet size.")] = 10
    packet_bytes: Annotated[tuple[int, ...], Doc("Sizes of the ICMP payload.")] = (100, 1000)
    spacing_s: Annotated[float, Doc("Interval between requests to the same address.")] = 1.0
    timeout_s: Annotated[float, Doc("Time after which a request without a reply is lost.")] = 2.0
    priming: Annotated[bool, Doc("Send a request before the counted ones; it is not counted (PingER's priming).")] = (
        True
    )
    dont_fragment: Annotated[bool, Doc("Set the don't-fragment bit, to detect the path MTU.")] = False

    kind: TestKind = dataclasses.field(default="ping", init=False)

    @property
    def parameters(self) -> dict[str, object]:
        """Fields of the `probes.ping.spec.PingSpec` without the targets."""
        return {
            "packet_bytes": list(self.packet_bytes),
            "count": self.count,
            "spacing_s": self.spacing_s,
            "timeout_s": self.timeout_s,
            "priming_bytes": PRIMING_BYTES if self.priming else None,
            "dont_fragment": self.dont_fragment,
        }


@dataclass(frozen=True, slots=True)
class IntegerRange:
    """An integer from `low` to `high`, with a default and a description for the reference."""

    low: int
    high: int
    default: int | None = None
    sentence: str = ""


THROUGHPUT_NUMBERS = {
    "duration_s": IntegerRange(1, 3600, 10, "Length of the test, without the omitted start."),
    "omit_s": IntegerRange(0, 60, 0, "Time at the start that is left out of the average."),
    "streams": IntegerRange(1, 128, 1, "Number of parallel streams."),
    "port": IntegerRange(1, 65_535, 5201, "Port on which the server listens."),
    "window_bytes": IntegerRange(2048, 2**30, None, "Socket buffer of each stream. Default: the operating system's."),
    "mss_bytes": IntegerRange(88, 9216, None, "Maximum segment size. Default: the operating system's."),
}
RATE_BPS = IntegerRange(100_000, 400_000_000_000)
PROTOCOLS = ("tcp", "udp")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputSettings:
    """Settings of a throughput test. With `reverse` the receiver connects, and the sender listens."""

    duration_s: int = 10
    omit_s: int = 0
    streams: int = 1
    port: int = 5201
    protocol: Annotated[str, Doc("Transport protocol. UDP needs `rate_mbps`.")] = "tcp"
    rate_bps: Annotated[int | None, Doc("Rate of all streams together. Default: no limit.", key="rate_mbps")] = None
    window_bytes: int | None = None
    congestion_control: Annotated[
        str | None, Doc('Congestion control of the sender, such as "cubic". Default: the operating system\'s.')
    ] = None
    mss_bytes: int | None = None
    reverse: Annotated[bool, Doc("Whether the receiver opens the connection, for a sender that can be reached.")] = (
        False
    )

    @property
    def parameters(self) -> dict[str, object]:
        """Fields of the `probes.throughput.spec.ThroughputSpec` without the addresses; options only where set."""
        options = {
            "protocol": None if self.protocol == "tcp" else self.protocol,
            "rate_bps": self.rate_bps,
            "window_bytes": self.window_bytes,
            "congestion_control": self.congestion_control,
            "mss_bytes": self.mss_bytes,
            "reverse": self.reverse or None,
        }
        return {
            "duration_s": self.duration_s,
            "omit_s": self.omit_s,
            "streams": self.streams,
            "port": self.port,
            **{name: value for name, value in options.items() if value is not None},
        }


@dataclass(frozen=True, slots=True)
class ThroughputEntry(ThroughputSettings):
    """`slip_s` is the maximum delay of its start, None for anywhere in its period; the higher `priority` wins."""

    name: Annotated[str, Doc("Name, which groups refer to.")]
    every_s: Annotated[int, Doc("Period: each path has a test in each period.")]
    priority: Annotated[
        int, Doc("Of two tests that need the same time, the test with the higher priority gets it.")
    ] = 0
    slip_s: Annotated[int | None, Doc("Maximum delay of a start. Default: anywhere in the period.")] = None

    kind: TestKind = dataclasses.field(default="throughput", init=False)


@dataclass(frozen=True, slots=True)
class CapacityEntry:
    name: Annotated[str, Doc("Name, which groups refer to.")]
    every_s: Annotated[int, Doc("Period: each path is measured once in each period.")] = 3600

    kind: TestKind = dataclasses.field(default="capacity", init=False)

    @property
    def parameters(self) -> dict[str, object]:
        """Fields of the `probes.capacity.spec.CapacitySpec` without the addresses: none."""
        return {}


@dataclass(frozen=True, slots=True)
class DiskToDiskEntry:
    name: Annotated[str, Doc("Name, which groups refer to.")]
    every_s: Annotated[int, Doc("Period: each path has a test in each period.")] = 21_600
    tool: Annotated[str, Doc("Program that transfers: our own parallel streams, or `iperf3 -F`.")] = "fetch"
    file_bytes: Annotated[int, Doc("Size of the file.")] = 500_000_000
    duration_s: Annotated[int, Doc("Maximum length of each of the two transfers.")] = 10
    streams: Annotated[int, Doc("Number of parallel streams; iperf3 allows 1, which is then the default.")] = 4
    port: Annotated[int, Doc("Port on which the ends listen.")] = 5201

    kind: TestKind = dataclasses.field(default="disk-to-disk", init=False)

    @property
    def parameters(self) -> dict[str, object]:
        """Fields of the `probes.disk_to_disk.spec.DiskToDiskSpec` without the addresses."""
        return {
            "tool": self.tool,
            "file_bytes": self.file_bytes,
            "duration_s": self.duration_s,
            "streams": self.streams,
            "port": self.port,
        }


TestEntry = PingEntry | ThroughputEntry | CapacityEntry | DiskToDiskEntry


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

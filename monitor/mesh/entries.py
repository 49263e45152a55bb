"""Contents of mesh.toml as frozen structs: the result of `document.read`, and the input of `apply` and `expansion`.

`parameters` of a test are the fields of its spec in `probes` without the addresses. Nothing is checked here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from monitor.mesh.addresses import Family

Kind = Literal["ping", "throughput", "capacity", "disk-to-disk"]
HostKind = Literal["ping", "throughput"]

SHAPES: dict[str, tuple[str, ...]] = {"mesh": ("sites",), "star": ("centres", "sites"), "between": ("from", "to")}
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
    name: str
    address: str
    family: Family
    for_ping: bool
    for_throughput: bool
    uplink: str | None = None
    """Name, unique within the site, of the link shared with other hosts."""

    def measures(self, kind: Kind) -> bool:
        return self.for_throughput if kind in WITH_SLOTS else self.for_ping


@dataclass(frozen=True, slots=True)
class SiteEntry:
    name: str
    title: str
    latitude_deg: float
    longitude_deg: float
    country: str
    region: str
    has_agent: bool
    hosts: tuple[HostEntry, ...]
    contact: str = ""


@dataclass(frozen=True, slots=True)
class PingTest:
    name: str
    every_s: int
    count: int = 10
    packet_bytes: tuple[int, ...] = (100, 1000)
    spacing_s: float = 1.0
    timeout_s: float = 2.0
    priming: bool = True
    dont_fragment: bool = False

    kind: Kind = dataclasses.field(default="ping", init=False)

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
class Within:
    """An integer from `low` to `high`, with a default."""

    low: int
    high: int
    default: int | None = None


THROUGHPUT_NUMBERS = {
    "duration_s": Within(1, 3600, 10),
    "omit_s": Within(0, 60, 0),
    "streams": Within(1, 128, 1),
    "port": Within(1, 65_535, 5201),
    "window_bytes": Within(2048, 2**30),
    "mss_bytes": Within(88, 9216),
}
RATE_BPS = Within(100_000, 400_000_000_000)
PROTOCOLS = ("tcp", "udp")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputSettings:
    """Settings of a throughput test. With `reverse` the receiver connects, and the sender listens."""

    duration_s: int = 10
    omit_s: int = 0
    streams: int = 1
    port: int = 5201
    protocol: str = "tcp"
    rate_bps: int | None = None
    window_bytes: int | None = None
    congestion_control: str | None = None
    mss_bytes: int | None = None
    reverse: bool = False

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
class ThroughputTest(ThroughputSettings):
    """`slip_s` is the maximum delay of its start, None for anywhere in its period; the higher `priority` wins."""

    name: str
    every_s: int
    priority: int = 0
    slip_s: int | None = None

    kind: Kind = dataclasses.field(default="throughput", init=False)


@dataclass(frozen=True, slots=True)
class CapacityTest:
    name: str
    every_s: int = 3600

    kind: Kind = dataclasses.field(default="capacity", init=False)

    @property
    def parameters(self) -> dict[str, object]:
        """Fields of the `probes.capacity.spec.CapacitySpec` without the addresses: none."""
        return {}


@dataclass(frozen=True, slots=True)
class DiskToDiskTest:
    name: str
    every_s: int = 21_600
    tool: str = "fetch"
    file_bytes: int = 500_000_000
    duration_s: int = 10
    streams: int = 4
    port: int = 5201

    kind: Kind = dataclasses.field(default="disk-to-disk", init=False)

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


TestEntry = PingTest | ThroughputTest | CapacityTest | DiskToDiskTest


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """`members` has the site names of each key of the shape, as `SHAPES` lists them."""

    name: str
    shape: str
    members: Mapping[str, tuple[str, ...]]
    tests: tuple[str, ...]

    @property
    def sites(self) -> tuple[str, ...]:
        """All sites of the group, without duplicates."""
        return tuple(dict.fromkeys(name for names in self.members.values() for name in names))


@dataclass(frozen=True, slots=True)
class MeshDocument:
    """`alerts`, `service_levels` and `budgets` are the checked tables [alerts], [service_level] and [budget]; the
    modules `alert_rules`, `service_levels` and `budgets` interpret them."""

    name: str
    home: str | None
    sites: tuple[SiteEntry, ...]
    tests: tuple[TestEntry, ...]
    groups: tuple[GroupEntry, ...]
    alerts: Mapping[str, Any]
    service_levels: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    budgets: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)

"""What mesh.toml says, as frozen structs: the result of `document.read`, and what `apply` and `expansion` work from.

`parameters` of a test are what its spec in `probes` takes besides addresses. Nothing is checked here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from monitor.mesh.addresses import Family

Kind = Literal["ping", "throughput", "capacity"]
HostKind = Literal["ping", "throughput"]

SHAPES: dict[str, tuple[str, ...]] = {"mesh": ("sites",), "star": ("centres", "sites"), "between": ("from", "to")}
PRIMING_BYTES = 56
"""Of the request that wakes a path: the size that PingER used."""

KINDS: tuple[Kind, ...] = ("ping", "throughput", "capacity")
HOST_KINDS: tuple[HostKind, ...] = ("ping", "throughput")
"""What a host takes part in. A host that answers pings answers the trains of a capacity test."""


@dataclass(frozen=True, slots=True)
class HostEntry:
    name: str
    address: str
    family: Family
    for_ping: bool
    for_throughput: bool

    def measures(self, kind: Kind) -> bool:
        return self.for_throughput if kind == "throughput" else self.for_ping


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
        """The fields of its `probes.ping.spec.PingSpec`, but for the targets."""
        return {
            "packet_bytes": list(self.packet_bytes),
            "count": self.count,
            "spacing_s": self.spacing_s,
            "timeout_s": self.timeout_s,
            "priming_bytes": PRIMING_BYTES if self.priming else None,
            "dont_fragment": self.dont_fragment,
        }


@dataclass(frozen=True, slots=True)
class ThroughputTest:
    name: str
    every_s: int
    duration_s: int = 10
    omit_s: int = 0
    streams: int = 1
    port: int = 5201
    protocol: str = "tcp"
    rate_bps: int | None = None
    window_bytes: int | None = None
    congestion_control: str | None = None
    mss_bytes: int | None = None

    kind: Kind = dataclasses.field(default="throughput", init=False)

    @property
    def parameters(self) -> dict[str, object]:
        """The fields of its `probes.throughput.spec.ThroughputSpec`, but for the addresses; of the options those that
        were written."""
        options = {
            "protocol": None if self.protocol == "tcp" else self.protocol,
            "rate_bps": self.rate_bps,
            "window_bytes": self.window_bytes,
            "congestion_control": self.congestion_control,
            "mss_bytes": self.mss_bytes,
        }
        return {
            "duration_s": self.duration_s,
            "omit_s": self.omit_s,
            "streams": self.streams,
            "port": self.port,
            **{name: value for name, value in options.items() if value is not None},
        }


@dataclass(frozen=True, slots=True)
class CapacityTest:
    name: str
    every_s: int = 3600

    kind: Kind = dataclasses.field(default="capacity", init=False)

    @property
    def parameters(self) -> dict[str, object]:
        """The fields of its `probes.capacity.spec.CapacitySpec`, but for the addresses: none."""
        return {}


TestEntry = PingTest | ThroughputTest | CapacityTest


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """`members` has the site names of each key of the shape, as `SHAPES` lists them."""

    name: str
    shape: str
    members: Mapping[str, tuple[str, ...]]
    tests: tuple[str, ...]

    @property
    def sites(self) -> tuple[str, ...]:
        """All sites of the group, each once."""
        return tuple(dict.fromkeys(name for names in self.members.values() for name in names))


@dataclass(frozen=True, slots=True)
class MeshDocument:
    """`alerts` and `service_levels` are the tables [alerts] and [service_level] as they are written, checked; what
    follows from them is in `alert_rules` and `service_levels`."""

    name: str
    home: str | None
    sites: tuple[SiteEntry, ...]
    tests: tuple[TestEntry, ...]
    groups: tuple[GroupEntry, ...]
    alerts: Mapping[str, Any]
    service_levels: Mapping[str, Any] = dataclasses.field(default_factory=dict)

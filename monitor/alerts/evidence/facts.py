"""What was measured around the beginning of an incident: the values that its evidence is made of.

They are kept as JSON with the incident (`as_json`, `from_json`, VERSION), since raw bursts expire before incidents do.
How they are gathered is in `monitor.alerts.evidence.gather`, what they mean in `monitor.alerts.evidence.likely`. Ratios
are 0 to 1, times aware UTC; None is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

VERSION = 1
"""To be raised when a field changes its meaning or goes; what is only added needs a default."""


@dataclass(frozen=True, slots=True)
class Began:
    """When it began: the likeliest moment, and the earliest and latest that the measurements of `path` allow for (95%).

    `of` says what was looked at. `earliest` is None where the rule alone tells since when.
    """

    at: datetime
    earliest: datetime | None
    latest: datetime | None
    path: str
    of: str


@dataclass(frozen=True, slots=True)
class SizeLoss:
    """Packets of one size, in bytes of ICMP payload."""

    packet_bytes: int
    sent: int
    lost: int


@dataclass(frozen=True, slots=True)
class Figures:
    """A path over a period. Bursts during our own tests are counted in `bursts_during_test` and nowhere else.

    Loss is pooled over all packet sizes, with its exact two-sided 95% interval (Clopper and Pearson). Round trips are
    of the smallest packets; `ipdv_ms` is the inter-quartile range of the differences of one to the next (RFC 3393, RFC
    5481). `ttl` is what most replies had.
    """

    since: datetime
    until: datetime
    bursts: int
    bursts_all_lost: int
    bursts_during_test: int
    sent: int
    lost: int
    loss_low_ratio: float | None
    loss_high_ratio: float | None
    sizes: tuple[SizeLoss, ...]
    rtt_packet_bytes: int | None
    rtt_min_ms: float | None
    rtt_p25_ms: float | None
    rtt_median_ms: float | None
    rtt_p75_ms: float | None
    rtt_p95_ms: float | None
    rtt_max_ms: float | None
    ipdv_ms: float | None
    duplicates: int
    reordered: int
    ttl: int | None
    address: str | None = None

    @property
    def loss_ratio(self) -> float | None:
        """Pooled loss; None where nothing was sent."""
        return self.lost / self.sent if self.sent else None


@dataclass(frozen=True, slots=True)
class Direction:
    """One path before and after; `now` is the last hour, where the incident still lasts."""

    path_id: int
    name: str
    before: Figures
    after: Figures
    now: Figures | None = None


@dataclass(frozen=True, slots=True)
class PathFacts:
    """A path of the incident, there and, where the reverse path is measured, back."""

    path_id: int
    name: str
    source_address: str
    destination_address: str
    family: int
    there: Direction
    back: Direction | None


@dataclass(frozen=True, slots=True)
class OwnTest:
    """A throughput test of ours on one of the hosts, overlapping what was measured after the beginning."""

    path: str
    starts_at: datetime
    ends_at: datetime
    outcome: str | None


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """The agent of a site: its newest delivery, and what is wrong with it or its machine, in words (none: well)."""

    site: str
    is_source: bool
    delivered_at: datetime | None
    troubles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RouterSaid:
    """An ICMP error about `count` requests of a path, and which router (or the target itself) sent it."""

    path: str
    name: str
    router: str
    count: int


@dataclass(frozen=True, slots=True)
class Failure:
    """The newest burst of a path that could not be measured."""

    path: str
    at: datetime
    outcome: str
    detail: str | None


@dataclass(frozen=True, slots=True)
class TestVerdict:
    """What limited the newest throughput test of a path since the beginning, in words."""

    path: str
    at: datetime
    throughput_bps: float
    sentence: str


@dataclass(frozen=True, slots=True)
class Facts:
    """All of it, as it was known at `gathered_at`."""

    gathered_at: datetime
    began: Began | None
    paths: tuple[PathFacts, ...]
    own_tests: tuple[OwnTest, ...]
    agents: tuple[AgentFacts, ...]
    routers: tuple[RouterSaid, ...]
    failures: tuple[Failure, ...]
    verdicts: tuple[TestVerdict, ...]


def as_json(facts: Facts) -> dict[str, Any]:
    """What to keep."""
    made: dict[str, Any] = msgspec.to_builtins(facts)
    return made


def from_json(kept: dict[str, Any], version: int) -> Facts | None:
    """What was kept; None for what a newer version kept, which this one cannot read."""
    return msgspec.convert(kept, Facts) if version <= VERSION else None

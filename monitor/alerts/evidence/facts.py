"""Measurements around the beginning of an incident, stored with it as JSON, since raw bursts expire earlier.

Ratios are 0 to 1, times aware UTC; None means unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from monitor.alerts.evidence.routes.traced import RouteFacts
from monitor.analysis.directions import DirectionLosses, SteppedDirection
from monitor.analysis.loss import OUTAGE_CYCLES, is_outage

# Raise it when a field changes its meaning or is removed; a new field needs a default instead.
VERSION = 1


TESTS = "throughput tests"
# Times are shown to the second.
LEAST_LEFT_OUT = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Beginning:
    """The beginning of an incident, with a 95% confidence interval."""

    at: datetime  # most likely moment; of an outage the last answered packet
    earliest: datetime | None  # None if only the rule gives a time
    latest: datetime | None  # of an outage the first unanswered packet
    path: str  # of the bursts behind the interval
    of: str  # figure examined; `TESTS` from the last before to the first low
    is_outage: bool = False

    @property
    def width_s(self) -> float | None:
        return None if self.earliest is None or self.latest is None else (self.latest - self.earliest).total_seconds()


@dataclass(frozen=True, slots=True)
class SizeLoss:
    packet_bytes: int
    sent: int
    lost: int


@dataclass(frozen=True, slots=True)
class PeriodFigures:
    """A path over a period; packets sent during a throughput test count only in `bursts_during_test`.

    Loss is pooled over packet sizes, with its exact two-sided 95% interval (Clopper and Pearson). RTTs are of the
    smallest packets; those since an onset leave out its first burst.
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
    ipdv_ms: float | None  # interquartile range of consecutive RTT differences (RFC 3393, RFC 5481)
    duplicates: int
    reordered: int
    ttl: int | None  # of most replies
    address: str | None = None
    answered_at: datetime | None = None  # newest burst with a reply, even before the period
    unanswered_bursts: int = 0  # since `answered_at`
    is_unanswered: bool = False  # by the levels of its findings
    rtt_floor_ms: float | None = None  # minimum RTT of most bursts (`episode.floor_ms`)
    unanswered_packets: int | None = None  # None where an earlier version did not count them

    @property
    def loss_ratio(self) -> float | None:
        return self.lost / self.sent if self.sent else None

    @property
    def received(self) -> int:
        return self.sent - self.lost

    @property
    def is_cut_off(self) -> bool:
        """Whether the newest bursts, of two cycles at least, are all lost."""
        if self.is_unanswered:
            return True
        if not self.sent or self.unanswered_bursts < OUTAGE_CYCLES * max(len(self.sizes), 1):
            return False
        unanswered: float = self.sent * self.unanswered_bursts / self.bursts
        if self.unanswered_packets is not None:
            unanswered = self.unanswered_packets
        return is_outage(self.sent, self.received, min(unanswered, self.lost))


@dataclass(frozen=True, slots=True)
class Direction:
    """A path before and after the beginning."""

    path_id: int
    name: str
    before: PeriodFigures
    after: PeriodFigures
    now: PeriodFigures | None = None  # last hour of a lasting incident

    @property
    def left_out(self) -> tuple[datetime, datetime] | None:
        """The time around the beginning that neither period counts; None without any."""
        ends = self.before.until, self.after.since
        return ends if ends[1] - ends[0] >= LEAST_LEFT_OUT else None


@dataclass(frozen=True, slots=True)
class PathFacts:
    """A path of the incident, and its reverse path if measured."""

    path_id: int
    name: str
    source_address: str
    destination_address: str
    family: int
    there: Direction
    back: Direction | None
    source_site: str = ""
    destination_site: str = ""


@dataclass(frozen=True, slots=True)
class FailedTest:
    at: datetime  # begin
    outcome: str
    transferred_bytes: int | None = None  # received, else written by the sender: an upper bound; None if unknown
    duration_s: float | None = None


@dataclass(frozen=True, slots=True)
class PathTests:
    """Throughput tests of a path before and since the beginning: number and median rate, None without any."""

    source: str
    destination: str
    source_site: str
    destination_site: str
    before: int
    before_bps: float | None
    after: int
    after_bps: float | None
    before_loss_ratio: float | None = None
    after_loss_ratio: float | None = None
    after_resent_ratio: float | None = None
    after_at: datetime | None = None
    before_resent_ratio: float | None = None
    failed: FailedTest | None = None
    after_most_bps: float | None = None


@dataclass(frozen=True, slots=True)
class ArrivalCycles:
    """STAMP cycles of a path in an outage, by packets received from the far end."""

    cycles: int
    with_packets: int  # cycles in which any came


@dataclass(frozen=True, slots=True)
class OneWayFacts:
    """Both directions of a path by its STAMP test."""

    path_id: int
    source: str  # host
    destination: str  # host
    source_site: str
    destination_site: str
    before: DirectionLosses | None  # None without counters
    after: DirectionLosses | None  # None without counters
    step: SteppedDirection = SteppedDirection.UNKNOWN  # direction that stepped at the beginning
    step_ms: float | None = None  # of the RTT
    arrivals_before: ArrivalCycles | None = None
    arrivals: ArrivalCycles | None = None  # from the destination, in an outage


@dataclass(frozen=True, slots=True)
class HostTest:
    """A throughput test on any of the hosts since the beginning."""

    path: str
    starts_at: datetime
    ends_at: datetime
    outcome: str | None  # None until a result
    slot_id: int | None = None
    kind: str = ""  # a `KindName`


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """The last report of a site's agent, and its problems in words."""

    site: str
    is_source: bool
    delivered_at: datetime | None
    troubles: tuple[str, ...]
    measuring_troubles: tuple[str, ...] = ()  # those that disturb measurements
    clock_troubles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Deliveries:
    """The mesh's agents that delivered shortly before the beginning."""

    agents: int
    silent: int  # have not delivered since
    newest_at: datetime  # newest delivery of the silent agents


@dataclass(frozen=True, slots=True)
class RouterErrors:
    """An ICMP error about `count` requests of a path."""

    path: str
    name: str
    router: str  # sender, or the target itself
    count: int


@dataclass(frozen=True, slots=True)
class FailedBurst:
    """The newest burst of a path that could not be measured."""

    path: str
    at: datetime
    outcome: str
    detail: str | None


@dataclass(frozen=True, slots=True)
class TestVerdict:
    """The bottleneck of a path's newest throughput test since the beginning."""

    path: str
    at: datetime
    throughput_bps: float
    sentence: str
    verdict: str | None = None  # its name


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts as of `gathered_at`."""

    gathered_at: datetime
    began: Beginning | None
    paths: tuple[PathFacts, ...]
    own_tests: tuple[HostTest, ...]
    agents: tuple[AgentFacts, ...]
    routers: tuple[RouterErrors, ...]
    failures: tuple[FailedBurst, ...]
    verdicts: tuple[TestVerdict, ...]
    tests: tuple[PathTests, ...] = ()
    tests_seen: int = 0  # number of tests of these paths by then
    deliveries: Deliveries | None = None
    ended_at: datetime | None = None  # end of the trouble, and of the figures; None if lasting
    agents_at: datetime | None = None  # time of `agents`, while the trouble lasted
    unanswered_since: datetime | None = None  # last reply in an outage (`alerts.incidents.gravest`)
    routes: tuple[RouteFacts, ...] = ()  # of the gravest traced paths, certain places first
    one_way: tuple[OneWayFacts, ...] = ()
    answered_by: datetime | None = None  # first reply after an outage


def as_json(facts: Facts) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(facts)
    return values


def from_json(kept: dict[str, Any], version: int) -> Facts | None:
    """Convert JSON values to facts; None if a newer version wrote them."""
    return msgspec.convert(kept, Facts) if version <= VERSION else None


def with_before_of(facts: Facts, earlier: Facts) -> Facts:
    """Take figures before the beginning from `earlier` facts: the bursts may have expired."""
    earlier_directions: Mapping[int, Direction] = {
        direction.path_id: direction
        for path in earlier.paths
        for direction in (path.there, path.back)
        if direction is not None
    }

    def with_before(direction: Direction) -> Direction:
        first = earlier_directions.get(direction.path_id)
        return direction if first is None or not first.before.bursts else replace(direction, before=first.before)

    paths = (
        replace(path, there=with_before(path.there), back=None if path.back is None else with_before(path.back))
        for path in facts.paths
    )
    return replace(facts, paths=tuple(paths))

"""Measurements around the beginning of an incident: the values behind its evidence.

They are stored as JSON with the incident (`as_json`, `from_json`, VERSION), since raw bursts expire before incidents
do. `monitor.alerts.evidence.collect` gathers them, `monitor.alerts.evidence.likely_cause` interprets them. Ratios are 0
to 1, times aware UTC; None means unknown.
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

VERSION = 1
"""Raise it when a field changes its meaning or is removed; a new field needs a default instead."""


TESTS = "throughput tests"
LEAST_LEFT_OUT = timedelta(seconds=1)
"""Times are shown to the second."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The beginning of an incident: the most likely moment, and its 95% confidence interval by the bursts of `path`,
    of `TESTS` from the last before to the first low one. `of` names the figure examined. `earliest` is None if only the
    rule gives a time. An outage (`is_outage`) began between the last packet that was answered, which is `at`, and the
    first that was not."""

    at: datetime
    earliest: datetime | None
    latest: datetime | None
    path: str
    of: str
    is_outage: bool = False

    @property
    def width_s(self) -> float | None:
        """Width of the interval."""
        return None if self.earliest is None or self.latest is None else (self.latest - self.earliest).total_seconds()


@dataclass(frozen=True, slots=True)
class SizeLoss:
    """Packets of one size, in bytes of ICMP payload."""

    packet_bytes: int
    sent: int
    lost: int


@dataclass(frozen=True, slots=True)
class PeriodFigures:
    """A path over a period, without packets sent during a throughput test. Bursts without any other packet are counted
    in `bursts_during_test` and nowhere else.

    Loss is pooled over all packet sizes, with its exact two-sided 95% interval (Clopper and Pearson). RTTs are of the
    smallest packets, since the onset without the first burst, whose first packets may be from before; `rtt_floor_ms` is
    the minimum RTT of most bursts (`episode.floor_ms`); `ipdv_ms` is the interquartile range of the differences of
    consecutive RTTs (RFC 3393, RFC 5481). `ttl` is the TTL of most replies, `answered_at` the newest burst with a
    reply, also one from before the period; `unanswered_bursts` is the number of bursts since, `unanswered_packets` that
    of packets, None where an earlier version did not count them. `is_unanswered`: by the levels of its findings it does
    not answer.
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
    answered_at: datetime | None = None
    unanswered_bursts: int = 0
    is_unanswered: bool = False
    rtt_floor_ms: float | None = None
    unanswered_packets: int | None = None

    @property
    def loss_ratio(self) -> float | None:
        """Pooled loss; None where nothing was sent."""
        return self.lost / self.sent if self.sent else None

    @property
    def received(self) -> int:
        return self.sent - self.lost

    @property
    def is_cut_off(self) -> bool:
        """Whether the newest bursts, those of two cycles at least, are all lost, so that it is no partial loss."""
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
    """A path before and after the beginning; `now` is the last hour of a lasting incident."""

    path_id: int
    name: str
    before: PeriodFigures
    after: PeriodFigures
    now: PeriodFigures | None = None

    @property
    def left_out(self) -> tuple[datetime, datetime] | None:
        """The time within which it began, whose packets are in neither period; None without any."""
        ends = self.before.until, self.after.since
        return ends if ends[1] - ends[0] >= LEAST_LEFT_OUT else None


@dataclass(frozen=True, slots=True)
class PathFacts:
    """A path of the incident, and its reverse path if that is measured."""

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
    """A throughput test that failed, by when it began. `transferred_bytes` is what arrived in `duration_s`, else what
    the sender wrote to its socket, so that its rate was that at most; None where unknown."""

    at: datetime
    outcome: str
    transferred_bytes: int | None = None
    duration_s: float | None = None


@dataclass(frozen=True, slots=True)
class PathTests:
    """The throughput tests of a path before and since the beginning: how many, and the median rate; None without any.

    `source` and `destination` are hosts. The resent ratios are the median shares of segments retransmitted; the loss
    ratios are those of the tests that filled no queue themselves. `after_at` is when the newest began. Tests on demand
    count since the beginning: for the rate only where no others ran. `failed` is the newest since the beginning that
    failed; `after_most_bps` is the median rate with those that failed, each with the most it can have been; None
    where none of them counts.
    """

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
    """STAMP cycles of a path in an outage whose agent tells the packets of the far end that its reflector received;
    `with_packets` of them are those in which any came."""

    cycles: int
    with_packets: int


@dataclass(frozen=True, slots=True)
class OneWayFacts:
    """Both directions of a path by its STAMP test: counts before and since the beginning, None without counters, and
    what stepped at the beginning, by `step_ms` of the RTT. `source` and `destination` are hosts. `arrivals` are those
    from the destination, in an outage."""

    path_id: int
    source: str
    destination: str
    source_site: str
    destination_site: str
    before: DirectionLosses | None
    after: DirectionLosses | None
    step: SteppedDirection = SteppedDirection.UNKNOWN
    step_ms: float | None = None
    arrivals_before: ArrivalCycles | None = None
    arrivals: ArrivalCycles | None = None


@dataclass(frozen=True, slots=True)
class HostTest:
    """A throughput test on any of the hosts since the beginning, of a `KindName`; `outcome` is None until a result."""

    path: str
    starts_at: datetime
    ends_at: datetime
    outcome: str | None
    slot_id: int | None = None
    kind: str = ""


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """The agent of a site: its last report, and problems of the agent or its machine, in words.

    `measuring_troubles` are those of them that disturb its measurements, `clock_troubles` those of its clock.
    """

    site: str
    is_source: bool
    delivered_at: datetime | None
    troubles: tuple[str, ...]
    measuring_troubles: tuple[str, ...] = ()
    clock_troubles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Deliveries:
    """The agents of the whole mesh that delivered shortly before the beginning: how many, how many of them are silent
    since, and the newest delivery of those."""

    agents: int
    silent: int
    newest_at: datetime


@dataclass(frozen=True, slots=True)
class RouterErrors:
    """An ICMP error about `count` requests of a path, and the router (or the target itself) that sent it."""

    path: str
    name: str
    router: str
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
    """The bottleneck of the newest throughput test of a path since the beginning, in words; `verdict` is its name."""

    path: str
    at: datetime
    throughput_bps: float
    sentence: str
    verdict: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts as of `gathered_at`; `tests_seen` is the number of tests that these paths had by then.

    `ended_at` is the end of the trouble (`alerts.evidence.ending`) if the paths are normal since: the figures are up to
    then, and the agents as they were at `agents_at` while it lasted. None for facts of a lasting incident.
    `answered_by` is the first reply after an outage. `unanswered_since` is the last reply in an outage
    (`alerts.incidents.gravest`). `routes` are those of the gravest paths with traces, certain places
    first."""

    gathered_at: datetime
    began: Beginning | None
    paths: tuple[PathFacts, ...]
    own_tests: tuple[HostTest, ...]
    agents: tuple[AgentFacts, ...]
    routers: tuple[RouterErrors, ...]
    failures: tuple[FailedBurst, ...]
    verdicts: tuple[TestVerdict, ...]
    tests: tuple[PathTests, ...] = ()
    tests_seen: int = 0
    deliveries: Deliveries | None = None
    ended_at: datetime | None = None
    agents_at: datetime | None = None
    unanswered_since: datetime | None = None
    routes: tuple[RouteFacts, ...] = ()
    one_way: tuple[OneWayFacts, ...] = ()
    answered_by: datetime | None = None


def as_json(facts: Facts) -> dict[str, Any]:
    """Convert facts to JSON values."""
    values: dict[str, Any] = msgspec.to_builtins(facts)
    return values


def from_json(kept: dict[str, Any], version: int) -> Facts | None:
    """Convert JSON values to facts; None if a newer version wrote them."""
    return msgspec.convert(kept, Facts) if version <= VERSION else None


def with_before_of(facts: Facts, earlier: Facts) -> Facts:
    """Take the figures from before the beginning from `earlier` facts: the bursts may have expired by now."""
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

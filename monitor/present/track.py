"""The condition of a path, and its tracks: segments of one signal, direction and packet size, newest last. `conditions`
alone decides, by the first of its rules that holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import groupby, pairwise, takewhile

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.segments.delay_segments import DelaySegment
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.analysis.segments.segment import OUTSIDE, Moment, RateSegment
from monitor.analysis.segments.stretches import CLEAN, DEAD

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Codes = NDArray[np.int8]
AnySegment = LossSegment | DelaySegment | RateSegment

# A result is overdue after so many cycles plus the time for packets, timeout and delivery.
OVERDUE_CYCLES, DELIVERY_S = 2.0, 15.0
# Time for a new test's first result; a test without a newer result has no data.
LATELY_S = 600.0
# Figures of now are of LATELY_S, or of these cycles where longer.
SHOWN_CYCLES = 3
# Outages within the longer of LATELY_S and these cycles that are called flapping.
FLAPS, FLAPS_WITHIN_CYCLES = 3, 20.0
# Of a path without a limit: as many packets are awaited as with this limit.
UNKNOWN_LIMIT = 0.01


class Condition(IntEnum):
    """Condition of a track now; a path has its tracks' highest."""

    NORMAL = 0
    AWAITED = 1
    OWN_TESTS = 2
    OVERDUE = 3
    SUSPECT = 4
    BAD = 5
    FLAPS = 6
    DEAD = 7
    SET_ASIDE = 8
    NOT_PERMITTED = 9

    @property
    def is_trouble(self) -> bool:
        least, most = TROUBLE
        return least <= self <= most


# The least and the highest condition of a path that has a problem, proven or suspected.
TROUBLE = (Condition.SUSPECT, Condition.DEAD)


# A trouble that has ended is over in these: a path in maintenance is still measured.
CALM = (Condition.NORMAL, Condition.AWAITED, Condition.SET_ASIDE)
# The state of a segment of a rate or of responses that is not usual.
LOW = 1
# In these nothing is known of now.
UNKNOWN = (Condition.OWN_TESTS, Condition.OVERDUE, Condition.NOT_PERMITTED)


class Signal(IntEnum):
    LOSS = 0
    RTT = 1
    RATE = 2
    RESPONSE = 3
    OTHER = 4
    JITTER = 5


# Pings cross both directions and alone do not show which.
OF_ROUND_TRIPS = (Signal.LOSS, Signal.RTT, Signal.JITTER)


@dataclass(frozen=True, slots=True)
class TrackFacts:
    """Inputs of the conditions, a value for each track; times in seconds since the epoch, -inf without any."""

    every_s: Floats
    started_s: Floats  # start of the test
    newest_s: Floats  # newest result that counts
    own_s: Floats  # newest during own tests
    failed_s: Floats  # newest that was not measured
    is_set_aside: Bools
    packets: Floats  # since the last gap
    limits: Floats
    is_dead: Bools  # the newest bursts are an outage
    outages: Floats  # number that ended lately
    is_above: Bools  # loss above its limit
    is_unusual: Bools  # loss above the path's usual
    is_part: Bools  # of a part of a path's packets; decides only on loss


def conditions(of: TrackFacts, now_s: float) -> Codes:
    late_s = OVERDUE_CYCLES * of.every_s + DELIVERY_S
    first_s = of.started_s + np.maximum(LATELY_S, late_s)
    is_overdue = now_s > np.maximum(of.newest_s + late_s, first_s * ~np.isfinite(of.newest_s))
    is_failing = (of.failed_s > of.newest_s) & (now_s - of.failed_s <= late_s)
    is_failing &= is_overdue | ~np.isfinite(of.newest_s)
    limits = np.where(np.isnan(of.limits), UNKNOWN_LIMIT, of.limits)
    is_flapping = (of.outages + of.is_dead >= FLAPS) & ~of.is_part  # outages of a part may end later than the path's
    few = of.packets < -np.log(OUTSIDE) / limits  # all answered, more would exclude a loss above
    rules = {
        Condition.NOT_PERMITTED: is_failing,
        Condition.SET_ASIDE: of.is_set_aside,
        Condition.OWN_TESTS: is_overdue & (now_s - of.own_s <= late_s),
        Condition.OVERDUE: is_overdue,
        Condition.FLAPS: is_flapping,
        Condition.DEAD: of.is_dead,
        Condition.BAD: of.is_above,
        Condition.AWAITED: few | ~np.isfinite(of.newest_s),
        Condition.SUSPECT: of.is_unusual,
    }
    decided = np.select(list(rules.values()), [np.int8(code) for code in rules], np.int8(Condition.NORMAL))
    is_loss = (decided >= TROUBLE[0]) & (decided <= TROUBLE[1])
    of_part = np.where(is_loss, np.minimum(decided, Condition.BAD), Condition.NORMAL)
    return np.where(of.is_part, of_part, decided).astype(np.int8)


def delay_conditions(is_longer: Bools, has_finding: Bools, newest_s: Floats, every_s: Floats, now_s: float) -> Codes:
    """The condition of each RTT track: longer is bad once a rule has found it; without newer replies the loss track
    decides."""
    is_current = now_s <= newest_s + OVERDUE_CYCLES * every_s + DELIVERY_S
    condition = np.where(has_finding, np.int8(Condition.BAD), np.int8(Condition.SUSPECT))
    return np.where(is_longer & is_current, condition, np.int8(Condition.NORMAL)).astype(np.int8)


def test_condition(every_s: float, started_s: float, newest_s: float, now_s: float) -> Condition:
    """The condition of a path with only throughput tests; `newest_s` is NaN before the first result."""
    late_s = OVERDUE_CYCLES * every_s + DELIVERY_S
    if np.isnan(newest_s):
        return Condition.AWAITED if now_s <= started_s + max(LATELY_S, late_s) else Condition.OVERDUE
    return Condition.NORMAL if now_s <= newest_s + late_s else Condition.OVERDUE


def flaps_within_s(every_s: float) -> float:
    """The longest time since an outage ended, for a path to count as flapping."""
    return max(LATELY_S, FLAPS_WITHIN_CYCLES * every_s)


def newest_of(outages: Sequence[tuple[float, float]], every_s: float) -> tuple[tuple[float, float], ...]:
    """The newest outages in a row, (begin, end), any FLAPS of them within the flapping time."""
    newest = list(outages[-1:])
    for outage in reversed(outages[:-1]):
        _, end_s = newest[: FLAPS - 1][-1]
        if end_s - outage[1] > flaps_within_s(every_s):
            break
        newest.insert(0, outage)
    return tuple(newest)


@dataclass(frozen=True, slots=True)
class Track:
    """A signal of a path with its last decided condition."""

    path_id: int
    signal: Signal
    way: str  # direction, "" for round trips
    packet_bytes: int  # 0 for all sizes
    condition: Condition
    newest_s: float
    segments: tuple[AnySegment, ...]
    outages: tuple[tuple[float, float], ...] = ()  # newest in a row: start and end, seconds since the epoch
    interval: tuple[float, float] | None = None  # 95%, of a normal loss above its limit with over 5%

    @property
    def now(self) -> AnySegment | None:
        """The newest segment; None before the first burst."""
        return self.segments[-1] if self.segments else None

    @property
    def troubles(self) -> list[tuple[AnySegment, ...]]:
        """Segments in a row that are not clean, the newest last."""
        rows = groupby(self.segments, key=_is_clean)
        return [tuple(of_row) for is_clean, of_row in rows if not is_clean]

    @property
    def trouble(self) -> tuple[AnySegment, ...]:
        """The segments of the lasting or last trouble; empty without any."""
        return next(reversed(self.troubles), ())

    @property
    def onset(self) -> Moment | None:
        """Start of the lasting or last trouble."""
        return self.trouble[0].since if self.trouble else None

    @property
    def packet_bytes_lost(self) -> int:
        """The only packet size with the lasting or last loss; 0 for all sizes."""
        newest = self.trouble[-1] if self.trouble else None
        return newest.packet_bytes if isinstance(newest, LossSegment) else 0

    @property
    def end(self) -> Moment | None:
        """End of the last trouble; None while it lasts, or without any."""
        # A loss that was told and is not there any more leaves two clean segments in a row.
        clean = [*takewhile(_is_clean, reversed(self.segments))]
        return clean[-1].since if clean and len(clean) < len(self.segments) else None

    @property
    def is_over(self) -> bool:
        """Whether its last trouble has ended, and it is normal again."""
        return self.condition in CALM and self.end is not None

    @property
    def level(self) -> float | None:
        """The newest segment's loss, RTT in ms, or rate in bit/s; None if unknown now."""
        return None if self.now is None or self.condition in UNKNOWN else self.now.level

    @property
    def peak(self) -> float | None:
        worst = [segment.worst for of in self.troubles for segment in of if segment.worst is not None]
        return (min if self.signal is Signal.RATE else max)(worst, default=None)

    @property
    def outage(self) -> tuple[Moment, Moment | None] | None:
        """The last reply before the newest outage, and the first after, None while it lasts; None without any."""
        silent, *following = self._since_outage or (None,)
        return None if silent is None else (silent.since, following[0].since if following else None)

    @property
    def is_dead(self) -> bool:
        return len(self._since_outage) == 1

    @property
    def is_revived(self) -> bool:
        """Whether it has been clean since its newest outage."""
        return any(segment.state == CLEAN for segment in self._since_outage)

    @property
    def _since_outage(self) -> tuple[AnySegment, ...]:
        """The newest outage and later segments; empty without any."""
        silent = [number for number, of in enumerate(self.segments) if isinstance(of, LossSegment) and of.state == DEAD]
        return self.segments[silent[-1] :] if silent else ()

    @property
    def before(self) -> Track | None:
        """The track before the lasting trouble; None without, or without an earlier clean segment."""
        clean = [number for number, segment in enumerate(self.segments) if _is_clean(segment)]
        if not clean or clean[-1] == len(self.segments) - 1:
            return None
        return replace(self, condition=Condition.NORMAL, segments=self.segments[: clean[-1] + 1])

    def without_ended(self, moment_s: float) -> Track:
        """The track without the troubles that had ended at a moment."""
        ends_s = {id(segment): later.since.at_s for segment, later in pairwise(self.segments)}
        lasting = [of for of in self.troubles if ends_s.get(id(of[-1]), math.inf) > moment_s]
        first = self.segments.index(lasting[0][0]) if lasting else len(self.segments)
        return replace(self, segments=self.segments[max(first - 1, 0) :])

    def trouble_at(self, at_s: float) -> tuple[AnySegment, ...]:
        """The trouble at or last before a moment, else the first; empty without any."""
        begun = [of for of in self.troubles if of[0].since.at_s <= at_s]
        return next(iter([*begun[-1:], *self.troubles]), ())


def _is_clean(segment: AnySegment) -> bool:
    return segment.state == CLEAN

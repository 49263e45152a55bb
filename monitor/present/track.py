"""The condition of a path, and the tracks that it is decided by.

A track has the segments of one signal of a path, of one direction and packet size, the newest last. `conditions` is the
only place that decides what a track is now; the first row of `_RULES` that applies. Pages, API, alerts and reports read
the stored condition (`monitor.present.read`).
"""

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

OVERDUE_CYCLES, DELIVERY_S = 2.0, 15.0
"""A result is overdue after so many cycles, and the time that its packets, their timeout and the delivery take."""
LATELY_S = 600.0
"""A new test may take so long until its first result; one without a newer result is said to have no data."""
FLAPS, FLAPS_WITHIN_CYCLES = 3, 20.0
"""Of so many outages within the longer of LATELY_S and these cycles a path is said to flap."""
UNKNOWN_LIMIT = 0.01
"""Of a path whose loss has no limit: as many packets are awaited as with this."""


class Condition(IntEnum):
    """What a track, or a path, is now. Of several tracks the path is in the condition with the highest number."""

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
        """Whether the path has a problem, proven or suspected."""
        least, most = TROUBLE
        return least <= self <= most


TROUBLE = (Condition.SUSPECT, Condition.DEAD)
"""The least and the highest condition of a path that has a problem, proven or suspected."""


CALM = (Condition.NORMAL, Condition.AWAITED, Condition.SET_ASIDE)
"""A trouble that has ended is over in these: a path in maintenance is measured on."""
LOW = 1
"""The state of a segment of a rate or of responses that is not usual."""
UNKNOWN = (Condition.OWN_TESTS, Condition.OVERDUE, Condition.NOT_PERMITTED)
"""Of now nothing is known in these."""


class Signal(IntEnum):
    """What a track is of."""

    LOSS = 0
    RTT = 1
    RATE = 2
    RESPONSE = 3
    OTHER = 4
    JITTER = 5


OF_ROUND_TRIPS = (Signal.LOSS, Signal.RTT, Signal.JITTER)
"""Pings cross both directions: alone they do not tell which."""


@dataclass(frozen=True, slots=True)
class TrackFacts:
    """What the conditions of tracks are decided by, a value for each track. Times are in seconds since the epoch: of
    the begin of the test, the newest result that counts, the newest during own tests and the newest that was not
    measured, -inf without any. `packets` are those since the last gap, `outages` how many ended of late; `is_dead`: the
    newest bursts are an outage; `is_above`, `is_unusual`: the loss is above its limit, above the path's usual.
    `is_part`: the track is of some packets of a path alone, and tells only a loss of these."""

    every_s: Floats
    started_s: Floats
    newest_s: Floats
    own_s: Floats
    failed_s: Floats
    is_set_aside: Bools
    packets: Floats
    limits: Floats
    is_dead: Bools
    outages: Floats
    is_above: Bools
    is_unusual: Bools
    is_part: Bools


def conditions(of: TrackFacts, now_s: float) -> Codes:
    """The condition of each track."""
    late_s = OVERDUE_CYCLES * of.every_s + DELIVERY_S
    first_s = of.started_s + np.maximum(LATELY_S, late_s)
    is_overdue = now_s > np.maximum(of.newest_s + late_s, first_s * ~np.isfinite(of.newest_s))
    is_failing = (of.failed_s > of.newest_s) & (now_s - of.failed_s <= late_s)
    is_failing &= is_overdue | ~np.isfinite(of.newest_s)
    limits = np.where(np.isnan(of.limits), UNKNOWN_LIMIT, of.limits)
    is_flapping = of.outages + of.is_dead >= FLAPS
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
    """The condition of each track of RTT: a longer one is bad once a rule has found it. Without newer replies, or while
    they are overdue, the track of loss tells."""
    is_current = now_s <= newest_s + OVERDUE_CYCLES * every_s + DELIVERY_S
    condition = np.where(has_finding, np.int8(Condition.BAD), np.int8(Condition.SUSPECT))
    return np.where(is_longer & is_current, condition, np.int8(Condition.NORMAL)).astype(np.int8)


def test_condition(every_s: float, started_s: float, newest_s: float, now_s: float) -> Condition:
    """The condition of a path that has throughput tests alone, by the begin of the newest, NaN without any."""
    late_s = OVERDUE_CYCLES * every_s + DELIVERY_S
    if np.isnan(newest_s):
        return Condition.AWAITED if now_s <= started_s + max(LATELY_S, late_s) else Condition.OVERDUE
    return Condition.NORMAL if now_s <= newest_s + late_s else Condition.OVERDUE


def flaps_within_s(every_s: float) -> float:
    """How long ago an outage may have ended for its path to flap."""
    return max(LATELY_S, FLAPS_WITHIN_CYCLES * every_s)


def newest_of(outages: Sequence[tuple[float, float]], every_s: float) -> tuple[tuple[float, float], ...]:
    """The newest outages in a row, begin and end of each: so many within the time in which FLAPS are a flapping."""
    newest = list(outages[-1:])
    for outage in reversed(outages[:-1]):
        _, end_s = newest[: FLAPS - 1][-1]
        if end_s - outage[1] > flaps_within_s(every_s):
            break
        newest.insert(0, outage)
    return tuple(newest)


@dataclass(frozen=True, slots=True)
class Track:
    """A signal of a path, in a direction ("" for round trips) and of a packet size (0 for all), with the condition as
    decided last, the newest burst, the segments and the newest outages in a row (begin and end, in seconds since the
    epoch). A normal one whose loss is above its limit with more than 5% has the `interval` of that loss (95%)."""

    path_id: int
    signal: Signal
    way: str
    packet_bytes: int
    condition: Condition
    newest_s: float
    segments: tuple[AnySegment, ...]
    outages: tuple[tuple[float, float], ...] = ()
    interval: tuple[float, float] | None = None

    @property
    def now(self) -> AnySegment | None:
        """The newest segment; None before the first burst."""
        return self.segments[-1] if self.segments else None

    @property
    def troubles(self) -> list[tuple[AnySegment, ...]]:
        """The troubles, the newest last: segments in a row that are not clean."""
        rows = groupby(self.segments, key=_is_clean)
        return [tuple(of_row) for is_clean, of_row in rows if not is_clean]

    @property
    def trouble(self) -> tuple[AnySegment, ...]:
        """The segments of the trouble that lasts, or of the last; empty without any."""
        return next(reversed(self.troubles), ())

    @property
    def onset(self) -> Moment | None:
        """When the trouble that lasts, or the last, began."""
        return self.trouble[0].since if self.trouble else None

    @property
    def end(self) -> Moment | None:
        """When the last trouble ended; None while it lasts, or without any."""
        # A loss that was told and is not there any more leaves two clean segments in a row.
        clean = [*takewhile(_is_clean, reversed(self.segments))]
        return clean[-1].since if clean and len(clean) < len(self.segments) else None

    @property
    def is_over(self) -> bool:
        """Whether its last trouble has ended, and it is normal again."""
        return self.condition in CALM and self.end is not None

    @property
    def level(self) -> float | None:
        """The figure of the newest segment: a loss, an RTT in ms, a rate in bit/s; None if nothing is known of now."""
        return None if self.now is None or self.condition in UNKNOWN else self.now.level

    @property
    def peak(self) -> float | None:
        """The worst figure of its troubles; None without any."""
        worst = [segment.worst for of in self.troubles for segment in of if segment.worst is not None]
        return (min if self.signal is Signal.RATE else max)(worst, default=None)

    @property
    def outage(self) -> tuple[Moment, Moment | None] | None:
        """The last reply before the newest outage, and the first after it, None while it lasts; None without any."""
        silent, *following = self._since_outage or (None,)
        return None if silent is None else (silent.since, following[0].since if following else None)

    @property
    def is_dead(self) -> bool:
        """Whether its newest segment is an outage."""
        return len(self._since_outage) == 1

    @property
    def is_revived(self) -> bool:
        """Whether it has been clean since its newest outage."""
        return any(segment.state == CLEAN for segment in self._since_outage)

    @property
    def _since_outage(self) -> tuple[AnySegment, ...]:
        """The newest outage and the segments after it; empty without any."""
        silent = [number for number, of in enumerate(self.segments) if isinstance(of, LossSegment) and of.state == DEAD]
        return self.segments[silent[-1] :] if silent else ()

    @property
    def before(self) -> Track | None:
        """The track as it was before the trouble that lasts; None without one, or without a clean segment before."""
        clean = [number for number, segment in enumerate(self.segments) if _is_clean(segment)]
        if not clean or clean[-1] == len(self.segments) - 1:
            return None
        return replace(self, condition=Condition.NORMAL, segments=self.segments[: clean[-1] + 1])

    def since(self, moment_s: float) -> Track:
        """The track without the troubles that had ended at a moment."""
        ends_s = {id(segment): later.since.at_s for segment, later in pairwise(self.segments)}
        lasting = [of for of in self.troubles if ends_s.get(id(of[-1]), math.inf) > moment_s]
        first = self.segments.index(lasting[0][0]) if lasting else len(self.segments)
        return replace(self, segments=self.segments[max(first - 1, 0) :])

    def trouble_at(self, at_s: float) -> tuple[AnySegment, ...]:
        """The trouble that was, or had begun last, at a moment; the first where none had begun, empty without any."""
        begun = [of for of in self.troubles if of[0].since.at_s <= at_s]
        return next(iter([*begun[-1:], *self.troubles]), ())


def _is_clean(segment: AnySegment) -> bool:
    return segment.state == CLEAN

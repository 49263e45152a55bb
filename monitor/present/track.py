"""A track of a path: the segments of one signal, direction and packet size, newest last, with its condition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import groupby, pairwise, takewhile

from monitor.analysis.segments.delay_segments import DelaySegment
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.analysis.segments.segment import Moment, RateSegment
from monitor.analysis.segments.stretches import CLEAN, DEAD
from monitor.present.conditions import CALM, FLAPS, UNKNOWN, Condition, flaps_within_s

AnySegment = LossSegment | DelaySegment | RateSegment

# The state of a segment of a rate or of responses that is not usual.
LOW = 1


class Signal(IntEnum):
    LOSS = 0
    RTT = 1
    RATE = 2
    RESPONSE = 3
    OTHER = 4
    JITTER = 5


# Pings cross both directions and alone do not show which.
OF_ROUND_TRIPS = (Signal.LOSS, Signal.RTT, Signal.JITTER)


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

"""Offset of this site's clock from the centre's, estimated from the requests that the agent sends anyway.

Each request and its answer are four stamps, as in NTP (RFC 5905, section 8): ours when the request leaves and when the
answer comes, the centre's when it takes the request up and when it answers. Our two are taken on a clock that nobody
sets, so an offset holds on when the wall clock is stepped, and while the centre is away.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

CLOCK_OFF_S = 1.0
"""Beyond this a clock is wrong: a site does not join, and results are flagged."""
EXCHANGES_KEPT = 8
DRIFT = 15e-6
"""RFC 5905's PHI: how much a clock may run fast or slow, in seconds a second."""
STAMP_RESOLUTION_S = 5e-6
"""The centre's stamps are written to the microsecond; an exchange may seem shorter than nothing by so much."""


def steady_s() -> float:
    """Seconds on a clock that is never set; on Linux it also counts while the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer: ours on the steady clock, the centre's in seconds since the epoch."""

    sent_s: float
    centre_received_s: float
    centre_sent_s: float
    received_s: float

    @property
    def delay_s(self) -> float:
        """Round trip on the network, without the time that the centre took."""
        return (self.received_s - self.sent_s) - (self.centre_sent_s - self.centre_received_s)

    @property
    def centre_ahead_s(self) -> float:
        """The centre's wall clock less our steady one, true to within half the delay."""
        return ((self.centre_received_s - self.sent_s) + (self.centre_sent_s - self.received_s)) / 2

    def uncertainty_s(self, now_s: float) -> float:
        return max(self.delay_s, 0.0) / 2 + STAMP_RESOLUTION_S + DRIFT * (now_s - self.received_s)


@dataclass(frozen=True, slots=True)
class Offset:
    """This site's wall clock less the centre's, and how far that can be from the truth."""

    seconds: float
    uncertainty_s: float

    @property
    def is_surely_wrong(self) -> bool:
        return abs(self.seconds) - self.uncertainty_s > CLOCK_OFF_S


class CentreClock:
    """Remembers the newest exchanges; any thread may use it."""

    def __init__(self, *, wall_s: Callable[[], float] = time.time, steady_s: Callable[[], float] = steady_s) -> None:
        self.now_s = steady_s
        self._wall_s = wall_s
        self._exchanges: deque[Exchange] = deque(maxlen=EXCHANGES_KEPT)
        self._lock = threading.Lock()

    def note(self, sent_s: float, centre_received: str | None, centre_sent: str | None, received_s: float) -> None:
        """Record an exchange with the timestamps of the answer's headers; ignored if they are missing or impossible."""
        try:
            exchange = Exchange(sent_s, float(centre_received or "nan"), float(centre_sent or "nan"), received_s)
        except ValueError:
            return
        if math.isfinite(exchange.delay_s) and exchange.delay_s >= -STAMP_RESOLUTION_S:
            with self._lock:
                self._exchanges.append(exchange)

    def wall_ahead_s(self) -> float:
        """This site's wall clock less its steady one; it changes where the wall clock is set."""
        return self._wall_s() - self.now_s()

    def offset(self) -> Offset | None:
        """The offset of this site's wall clock; None before the first exchange."""
        return self.offset_of(self.wall_ahead_s())

    def offset_of(self, ahead_s: float) -> Offset | None:
        """The offset of a clock that is `ahead_s` ahead of the steady one, by the exchange with the least
        uncertainty."""
        with self._lock:
            exchanges = list(self._exchanges)
        if not exchanges:
            return None
        now_s = self.now_s()
        best = min(exchanges, key=lambda exchange: exchange.uncertainty_s(now_s))
        return Offset(ahead_s - best.centre_ahead_s, best.uncertainty_s(now_s))

    def off_s(self) -> float | None:
        """Offset of our clock if it is surely wrong; None if it is right or unknown."""
        offset = self.offset()
        return offset.seconds if offset is not None and offset.is_surely_wrong else None

    def utc_now(self) -> datetime:
        """The time by our clock, or by the centre's where ours is surely wrong. Slots begin by this time: with a clock
        an hour ahead, all slots of the next hour would be missed."""
        return datetime.fromtimestamp(self._wall_s() - (self.off_s() or 0.0), UTC)


class CycleClock:
    """The clock by which cycles are due and numbered: the centre's to within a second, and never set with this site's.

    Before the centre's first answer it follows this site's wall clock. Any thread may use it.
    """

    def __init__(self, centre: CentreClock) -> None:
        self._centre = centre
        self._lock = threading.Lock()
        self._ahead_s = centre.wall_ahead_s()

    def ahead_s(self) -> float:
        """This clock less the steady one. It changes only where this clock proves wrong: by each new estimate of the
        offset a cycle could begin before its time, and its number be taken for the previous one's."""
        with self._lock:
            offset = self._centre.offset_of(self._ahead_s)
            if offset is None:
                wall_ahead_s = self._centre.wall_ahead_s()
                if abs(wall_ahead_s - self._ahead_s) > CLOCK_OFF_S:
                    self._ahead_s = wall_ahead_s
            elif offset.is_surely_wrong:
                self._ahead_s -= offset.seconds
            return self._ahead_s

    def now_s(self) -> float:
        """Seconds since the epoch."""
        return self._centre.now_s() + self.ahead_s()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.now_s(), UTC)

"""Offset of this site's clock from the centre's, by four timestamps a request as in NTP (RFC 5905, section 8), on a
steady clock."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

# Beyond this a clock is wrong: a site does not join, and results are flagged.
CLOCK_OFF_S = 1.0
EXCHANGES_KEPT = 8
# RFC 5905's PHI: how much a clock may run fast or slow, in seconds a second.
DRIFT = 15e-6
# The centre's timestamps have microseconds; an exchange may seem shorter than zero by this much.
STAMP_RESOLUTION_S = 5e-6


def steady_s() -> float:
    """Seconds on a clock that is never set; on Linux suspension counts."""
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
        """Round trip on the network, without the centre's time."""
        return (self.received_s - self.sent_s) - (self.centre_sent_s - self.centre_received_s)

    @property
    def centre_ahead_s(self) -> float:
        """The centre's wall clock less our steady clock, within half the delay."""
        return ((self.centre_received_s - self.sent_s) + (self.centre_sent_s - self.received_s)) / 2

    def uncertainty_s(self, now_s: float) -> float:
        return max(self.delay_s, 0.0) / 2 + STAMP_RESOLUTION_S + DRIFT * (now_s - self.received_s)


@dataclass(frozen=True, slots=True)
class Offset:
    """This site's wall clock less the centre's."""

    seconds: float
    uncertainty_s: float  # bound of the error

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
        """Record an exchange by the answer's headers; ignored if missing or impossible."""
        try:
            exchange = Exchange(sent_s, float(centre_received or "nan"), float(centre_sent or "nan"), received_s)
        except ValueError:
            return
        if math.isfinite(exchange.delay_s) and exchange.delay_s >= -STAMP_RESOLUTION_S:
            with self._lock:
                self._exchanges.append(exchange)

    def wall_ahead_s(self) -> float:
        """This site's wall clock less its steady clock."""
        return self._wall_s() - self.now_s()

    def offset(self) -> Offset | None:
        return self.offset_of(self.wall_ahead_s())

    def offset_of(self, ahead_s: float) -> Offset | None:
        """Offset of a clock `ahead_s` ahead of the steady clock."""
        with self._lock:
            exchanges = list(self._exchanges)
        if not exchanges:
            return None
        now_s = self.now_s()
        best = min(exchanges, key=lambda exchange: exchange.uncertainty_s(now_s))
        return Offset(ahead_s - best.centre_ahead_s, best.uncertainty_s(now_s))

    def off_s(self) -> float | None:
        """Offset of our clock if surely wrong, else None."""
        offset = self.offset()
        return offset.seconds if offset is not None and offset.is_surely_wrong else None

    def utc_now(self) -> datetime:
        """Our clock's time, or the centre's where ours is surely wrong."""
        # With a clock an hour ahead, all slots of the next hour would be missed.
        return datetime.fromtimestamp(self._wall_s() - (self.off_s() or 0.0), UTC)


class CycleClock:
    """The clock of cycles: the centre's to within a second, never set with this site's; thread-safe.

    Before the centre's first answer it follows this site's wall clock.
    """

    def __init__(self, centre: CentreClock) -> None:
        self._centre = centre
        self._lock = threading.Lock()
        self._ahead_s = centre.wall_ahead_s()

    def ahead_s(self) -> float:
        """This clock less the steady clock; changed only if surely wrong, lest a cycle number repeat."""
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
        return self._centre.now_s() + self.ahead_s()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.now_s(), UTC)

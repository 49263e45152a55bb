"""The difference of two readings of an interface's counters, modulo their size. No I/O."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass

NAMES = ("in_octets", "out_octets", "in_errors", "out_errors", "in_drops", "out_drops")
OCTET_BITS = 64
# Of an interface with unknown speed.
FASTEST_BPS = 1e13
# Counters are read a little before or after their time.
SPEED_SLACK = 1.5


@dataclass(frozen=True, slots=True)
class Reading:
    at_s: float  # on a clock of their own, such as the router's uptime
    epoch: Hashable  # differs after a reset of the counters
    name: str
    alias: str | None
    speed_bps: float | None
    in_octets: int
    out_octets: int
    in_errors: int | None
    out_errors: int | None
    in_drops: int | None
    out_drops: int | None
    error_bits: int = 64  # size of the error and drop counters, which may be None


@dataclass(frozen=True, slots=True)
class Use:
    """Use of an interface between two readings; errors and drops are None where not counted."""

    interval_s: float
    in_bps: float
    out_bps: float
    in_errors: int | None
    out_errors: int | None
    in_drops: int | None
    out_drops: int | None


def use_between(before: Reading, after: Reading) -> Use | str:
    """Return the use between two readings, or the reason for none."""
    interval_s = after.at_s - before.at_s
    if after.epoch != before.epoch or interval_s <= 0.0:
        return "the counters began anew"
    fastest_bps = SPEED_SLACK * (after.speed_bps or before.speed_bps or FASTEST_BPS)
    rates = []
    for name in NAMES[:2]:
        octets = (getattr(after, name) - getattr(before, name)) % 2**OCTET_BITS
        rates.append(8.0 * octets / interval_s)
    if max(rates) > fastest_bps:
        return "the counters began anew"
    counts = [_count(getattr(before, name), getattr(after, name), after.error_bits) for name in NAMES[2:]]
    return Use(interval_s, *rates, *counts)


def _count(before: int | None, after: int | None, bits: int) -> int | None:
    """Count events; more than half of the counter's range is a reset."""
    if before is None or after is None:
        return None
    events = (after - before) % 2**bits
    return events if events < 2 ** (bits - 1) else after


class Readings:
    """The last reading of each interface in this process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[Hashable, Reading] = {}

    def exchange(self, key: Hashable, reading: Reading) -> Reading | None:
        """Keep a reading; return the reading before, if any."""
        with self._lock:
            before = self._last.get(key)
            self._last[key] = reading
            return before

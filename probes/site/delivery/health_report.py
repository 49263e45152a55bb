"""The health report in each delivery: the state of the machine, of the agent and of the batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from probes.ping.columns import STAMPS
from probes.ping.spec import Stamp
from probes.site.delivery.centre_clock import CentreClock
from probes.site.health import ClockOff, Health, read_health
from probes.site.spool.blocks import stamps_of, starts_of
from probes.site.spool.results import UncheckedResult
from probes.site.spool.spool import Spool
from probes.site.wire import Batch, BurstBlock, ToDeliver
from probes.throughput import authentication

VERSION_KEPT_S = 60.0
"""How long the version of iperf3 is kept: looking for the program in all of PATH costs as much as the rest of a
report."""


class HealthReporter:
    """Makes the health reports of an agent. `now_s` is a monotonic clock."""

    def __init__(
        self,
        clock: CentreClock,
        spool: Spool,
        *,
        bugs: Callable[[], int] = lambda: 0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bugs = bugs
        self._clock = clock
        self._spool = spool
        self._now_s = now_s
        self._iperf3: tuple[float, str | None] | None = None

    def current(self) -> Health:
        """The health now, without a batch."""
        offset = self._clock.offset()
        return msgspec.structs.replace(
            read_health(),
            clock_offset_s=None if offset is None else offset.seconds,
            clock_uncertainty_s=None if offset is None else offset.uncertainty_s,
            lost_ticks=self._spool.lost_cycles,
            dropped=self._spool.dropped_by_kind(),
            set_aside=self._spool.count_quarantined(),
            iperf3=self._iperf3_version(),
            bugs=self._bugs(),
        )

    def _iperf3_version(self) -> str | None:
        now_s = self._now_s()
        if self._iperf3 is None or now_s - self._iperf3[0] >= VERSION_KEPT_S:
            self._iperf3 = now_s, authentication.version()
        return self._iperf3[1]

    def for_batch(self, batch: Batch) -> Health:
        """The health to send with `batch`."""
        messages: tuple[ToDeliver, ...] = (*batch.results, *batch.all_blocks)
        return msgspec.structs.replace(self.current(), stamp=poorest_stamp(messages), clock_off=clock_off(messages))


def poorest_stamp(messages: Iterable[ToDeliver]) -> Stamp | None:
    """Of the results that say how they were stamped; None where there are none."""
    stamps: set[Stamp | None] = set()
    for message in messages:
        stamps |= stamps_of(message) if isinstance(message, BurstBlock) else {getattr(message.result, "stamp", None)}
    return max((stamp for stamp in STAMPS if stamp in stamps), key=STAMPS.index, default=None)


def clock_off(messages: Iterable[ToDeliver]) -> ClockOff | None:
    """The stretch of the results that were spooled with a wrong clock; None where there are none."""
    flagged = [
        (started_at, message.clock_off_s)
        for message in messages
        if message.clock_off_s is not None and not isinstance(message, UncheckedResult)
        for started_at in (starts_of(message) if isinstance(message, BurstBlock) else (message.result.started_at,))
    ]
    if not flagged:
        return None
    return ClockOff(
        since=min(started_at for started_at, _ in flagged),
        until=max(started_at for started_at, _ in flagged),
        offset_s=max((offset_s for _, offset_s in flagged), key=abs),
    )

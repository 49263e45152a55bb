"""The health report in each delivery: the state of the machine, of the agent and of the batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from operator import itemgetter

import msgspec

from probes.packets.columns import STAMPS
from probes.packets.spec import Stamp
from probes.site.delivery.centre_clock import CentreClock
from probes.site.health import CLOCK_OFFS_TOLD, SAME_OFFSET_S, ClockOff, Health, join_clock_offs, read_health
from probes.site.spool.blocks import stamps_of, starts_of
from probes.site.spool.clock_correction import MAX_CLOCK_ERROR_S
from probes.site.spool.results import UncheckedResult
from probes.site.spool.spool import Spool
from probes.site.wire import Batch, BurstBlock, ToDeliver
from probes.transfers.iperf3 import authentication

# How long iperf3's version is kept: searching PATH costs as much as the rest of a report.
VERSION_KEPT_S = 60.0


class HealthReporter:
    """Makes an agent's health reports; `now_s` is a monotonic clock."""

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
        messages: tuple[ToDeliver, ...] = (*batch.results, *batch.all_blocks)
        periods = clock_offs(messages)
        return msgspec.structs.replace(
            self.current(),
            stamp=poorest_stamp(messages),
            # An older centre reads a single period.
            clock_off=periods[-1] if periods else None,
            clock_offs=periods,
        )


def poorest_stamp(messages: Iterable[ToDeliver]) -> Stamp | None:
    stamps: set[Stamp | None] = set()
    for message in messages:
        stamps |= stamps_of(message) if isinstance(message, BurstBlock) else {getattr(message.result, "stamp", None)}
    return max((stamp for stamp in STAMPS if stamp in stamps), key=STAMPS.index, default=None)


def clock_offs(messages: Iterable[ToDeliver]) -> tuple[ClockOff, ...]:
    """Periods of results measured with a wrong clock, for each time that it was set."""
    periods: list[ClockOff] = []
    is_right = True
    for _, since, until, off_s in sorted(_measured(messages), key=itemgetter(0)):
        if off_s is not None:
            period = ClockOff(since=since, until=until, offset_s=off_s)
            if is_right or abs(off_s - periods[-1].offset_s) > SAME_OFFSET_S:
                periods.append(period)
            else:
                periods[-1] = join_clock_offs(periods[-1], period)
        is_right = off_s is None
    return tuple(periods[-CLOCK_OFFS_TOLD:])


def _measured(messages: Iterable[ToDeliver]) -> Iterator[tuple[datetime, datetime, datetime, float | None]]:
    for message in messages:
        if not isinstance(message, UncheckedResult):
            since, until = starts_of(message) if isinstance(message, BurstBlock) else (message.result.started_at,) * 2
            off_s = message.clock_off_s
            uncorrected_s = off_s if off_s is not None and abs(off_s) <= MAX_CLOCK_ERROR_S else 0.0
            yield since - timedelta(seconds=uncorrected_s), since, until, off_s

"""The health report in each delivery: the state of the machine, of the agent and of the batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

import msgspec

from probes.ping.spec import Stamp
from probes.site.delivery.centre_clock import CentreClock
from probes.site.health import ClockOff, Health, read_health
from probes.site.spool.results import UncheckedResult
from probes.site.spool.spool import Spool
from probes.site.wire import Batch, Delivered
from probes.throughput import authentication

STAMPS: tuple[Stamp, ...] = get_args(Stamp)
"""From the best to the poorest."""


class HealthReporter:
    """Makes the health reports of an agent."""

    def __init__(self, clock: CentreClock, spool: Spool) -> None:
        self._clock = clock
        self._spool = spool

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
            iperf3=authentication.version(),
        )

    def for_batch(self, batch: Batch) -> Health:
        """The health to send with `batch`."""
        return msgspec.structs.replace(
            self.current(), stamp=poorest_stamp(batch.results), clock_off=clock_off(batch.results)
        )


def poorest_stamp(results: Iterable[Delivered]) -> Stamp | None:
    """Of the results that say how they were stamped; None where there are none."""
    stamps = {getattr(delivered.result, "stamp", None) for delivered in results}
    return max((stamp for stamp in STAMPS if stamp in stamps), key=STAMPS.index, default=None)


def clock_off(results: Iterable[Delivered]) -> ClockOff | None:
    """The stretch of the results that were spooled with a wrong clock; None where there are none."""
    flagged = [
        (delivered.result.started_at, delivered.clock_off_s)
        for delivered in results
        if delivered.clock_off_s is not None and not isinstance(delivered, UncheckedResult)
    ]
    if not flagged:
        return None
    return ClockOff(
        since=min(started_at for started_at, _ in flagged),
        until=max(started_at for started_at, _ in flagged),
        offset_s=max((offset_s for _, offset_s in flagged), key=abs),
    )

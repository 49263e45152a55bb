"""Corrects results measured while this site's clock was wrong: start, flag and cycle, by the centre's clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from probes.site.spool.ledger import Cycle
from probes.site.wire import Delivered

MAX_CLOCK_ERROR_S = 300.0
"""A result that begins further ahead of the centre's clock is refused there."""


def correct_clock(
    results: Sequence[Delivered], cycle: Cycle | None, *, flagged_s: float | None, began_off_s: float, now_s: float
) -> Iterator[Delivered]:
    """The results with `flagged_s`, the error of the clock, and with their cycle by the centre's clock.

    `began_off_s` is the error when the cycle began, `now_s` the time by the centre's clock.
    """
    planned = None if cycle is None else cycle.by_centre_clock(began_off_s)
    for result in results:
        yield msgspec.structs.replace(
            result,
            sequence=0,
            result=correct_start(result.result, flagged_s, now_s),
            clock_off_s=flagged_s,
            every_s=None if planned is None else planned.every_s,
            cycle=None if planned is None else planned.number,
        )


def correct_without_cycle(
    results: Sequence[Delivered], off_s: float | None, last_wrong_s: float | None, now_s: float
) -> Iterator[Delivered]:
    """The results of no cycle, as slots and triggered traces, by the centre's clock.

    They ended now, with the clock wrong by `off_s`. One that would then begin in the future began before the clock was
    set, while it was wrong by `last_wrong_s`.
    """
    latest = datetime.fromtimestamp(now_s + MAX_CLOCK_ERROR_S, UTC)
    for result in results:
        began_before = last_wrong_s is not None and result.result.started_at - timedelta(seconds=off_s or 0.0) > latest
        flagged_s = last_wrong_s if began_before else off_s
        yield from correct_clock([result], None, flagged_s=flagged_s, began_off_s=0.0, now_s=now_s)


def correct_start(measured: Any, off_s: float | None, now_s: float) -> Any:
    """Subtract the error of the clock from the start of a result, where the centre would refuse it otherwise.

    Left alone where the start would then be further from now: the clock may have been set since.
    """
    if off_s is None or abs(off_s) <= MAX_CLOCK_ERROR_S:
        return measured
    off, now = timedelta(seconds=off_s), datetime.fromtimestamp(now_s, UTC)
    if abs(measured.started_at - off - now) >= abs(measured.started_at - now):
        return measured
    return msgspec.structs.replace(measured, started_at=measured.started_at - off)

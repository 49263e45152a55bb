"""Correct and flag results measured while this site's clock was wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from probes.site.spool.blocks import moved, starts_of
from probes.site.spool.ledger import Cycle
from probes.site.wire import BurstBlock, ToDeliver

# The centre refuses results that begin further ahead of its clock.
MAX_CLOCK_ERROR_S = 300.0


def correct_clock(
    results: Sequence[ToDeliver], cycle: Cycle | None, *, flagged_s: float | None, now_s: float
) -> Iterator[ToDeliver]:
    """Correct the starts; add the cycle and the clock's error, `flagged_s`, to each result. `now_s` is by the centre's
    clock."""
    every_s, number = (None, None) if cycle is None else (cycle.every_s, cycle.number)
    for result in results:
        if isinstance(result, BurstBlock):
            block = move_start(result, flagged_s, now_s)
            yield msgspec.structs.replace(block, clock_off_s=flagged_s, every_s=every_s, cycle=number)
            continue
        yield msgspec.structs.replace(
            result,
            sequence=0,
            result=correct_start(result.result, flagged_s, now_s),
            clock_off_s=flagged_s,
            every_s=every_s,
            cycle=number,
        )


def correct_without_cycle(
    results: Sequence[ToDeliver], off_s: float | None, last_wrong_s: float | None, now_s: float
) -> Iterator[ToDeliver]:
    """Correct results of no cycle, which ended now; a future start was off by `last_wrong_s`."""
    latest = datetime.fromtimestamp(now_s + MAX_CLOCK_ERROR_S, UTC)
    for result in results:
        started_at = starts_of(result)[1] if isinstance(result, BurstBlock) else result.result.started_at
        began_before = last_wrong_s is not None and started_at - timedelta(seconds=off_s or 0.0) > latest
        flagged_s = last_wrong_s if began_before else off_s
        yield from correct_clock([result], None, flagged_s=flagged_s, now_s=now_s)


def correct_start(measured: Any, off_s: float | None, now_s: float) -> Any:
    """Subtract the clock's error from a start that the centre would refuse, if that brings it nearer to now."""
    if off_s is None or abs(off_s) <= MAX_CLOCK_ERROR_S:
        return measured
    off = timedelta(seconds=off_s)
    if not _is_nearer(measured.started_at, off, now_s):
        return measured
    return msgspec.structs.replace(measured, started_at=measured.started_at - off)


def move_start(block: BurstBlock, off_s: float | None, now_s: float) -> BurstBlock:
    """As `correct_start`, for all bursts of a block."""
    if off_s is None or abs(off_s) <= MAX_CLOCK_ERROR_S:
        return block
    off = timedelta(seconds=off_s)
    return moved(block, -off) if _is_nearer(starts_of(block)[1], off, now_s) else block


def _is_nearer(started_at: datetime, off: timedelta, now_s: float) -> bool:
    now = datetime.fromtimestamp(now_s, UTC)
    return abs(started_at - off - now) < abs(started_at - now)

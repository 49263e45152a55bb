"""Check and store STAMP results, in their batch's transaction; existing rows stay unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast

import msgspec
import numpy as np

from monitor.archive.ingest.binary_copy import microseconds, pack
from monitor.archive.ingest.contradictions import in_burst
from monitor.archive.ingest.rows import row_of
from monitor.archive.ingest.store_results import mark_dirty, store_bursts
from monitor.archive.models import DirectionBurst
from probes.site.wire import Delivered
from probes.stamp.spec import ClockBound, StampBurst, StampDirection

# Fields of a direction with a column of their own, `forward_…` and `reverse_…`.
STORED_OF_EACH = tuple(name for name in StampDirection.__struct_fields__ if name != "dscp")


def in_stamp(burst: StampBurst) -> str | None:
    """Reason to refuse contradicting fields, or None."""
    reason = in_burst(burst.path_burst)
    if reason is not None:
        return reason
    reason = _reason_in_loss(burst) or _reason_in_delays(burst)
    return None if reason is None else f"{reason} - at `$.result`"


def _reason_in_loss(burst: StampBurst) -> str | None:
    lost, forward, reverse = burst.sent - burst.received, burst.forward.lost, burst.reverse.lost
    if (forward is None) != (reverse is None):
        return "loss of one direction only"
    if forward is None or reverse is None:
        if burst.undecided > lost:
            return f"undecided {burst.undecided} is more than the {lost} lost"
        return None
    if forward + reverse + burst.undecided + burst.late != lost:
        return (
            f"forward {forward}, reverse {reverse}, undecided {burst.undecided} and late {burst.late} are not the "
            f"{lost} lost"
        )
    return None


def _reason_in_delays(burst: StampBurst) -> str | None:
    if (burst.offset_lo_ms is None) != (burst.offset_hi_ms is None):
        return "one bound of the clocks' offset only"
    if burst.offset_lo_ms is not None and burst.offset_hi_ms is not None and burst.offset_lo_ms > burst.offset_hi_ms:
        return f"offset_lo_ms {burst.offset_lo_ms} is more than offset_hi_ms {burst.offset_hi_ms}"
    for name, direction in (("forward", burst.forward), ("reverse", burst.reverse)):
        ordered = [direction.min_ms, direction.median_ms, direction.p95_ms, direction.max_ms]
        given = [value for value in ordered if value is not None]
        if 0 < len(given) < len(ordered):
            return f"{name}: {len(given)} of the {len(ordered)} delays only"
        if given != sorted(given):
            return f"{name}: min_ms, median_ms, p95_ms and max_ms are not in order"
        if given and not burst.received:
            return f"{name}: delays without a reply"
    if (burst.forward.min_ms is None) != (burst.reverse.min_ms is None):
        return "delays of one direction only"
    return None


def store_directions(results: Sequence[Delivered], now: datetime) -> None:
    """Store STAMP results, and the bursts of paths without pings."""
    if not results:
        return
    ordered = sorted(results, key=lambda delivered: (delivered.path_id, delivered.result.started_at))
    DirectionBurst.objects.bulk_create([_row(delivered) for delivered in ordered], ignore_conflicts=True)
    mark_dirty(
        np.array([delivered.path_id for delivered in ordered], np.int64),
        np.array([microseconds(delivered.result.started_at) for delivered in ordered], np.int64),
        now,
    )
    series = [
        msgspec.structs.replace(delivered, result=_stamp(delivered).path_burst)
        for delivered in ordered
        if _stamp(delivered).is_path_series
    ]
    # Through the staging table: a burst that is stored already is no conflict.
    store_bursts(pack(series), now, all_new=False)


def _row(delivered: Delivered) -> DirectionBurst:
    burst = _stamp(delivered)
    of_each = {
        f"{name}_{field}": getattr(direction, field)
        for name, direction in (("forward", burst.forward), ("reverse", burst.reverse))
        for field in STORED_OF_EACH
    }
    return row_of(
        DirectionBurst,
        delivered,
        **of_each,
        are_clocks_synchronised=_are_synchronised(burst.own_clock, burst.far_clock),
    )


def _are_synchronised(own: ClockBound | None, far: ClockBound | None) -> bool | None:
    return None if own is None or far is None else own.is_synchronised and far.is_synchronised


def _stamp(delivered: Delivered) -> StampBurst:
    return cast("StampBurst", delivered.result)

"""Delays of each direction, and the interval of the clock offset.

Arrays have shape (targets, packets); times are Unix nanoseconds of their end's clock.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from probes.packets.arrays import Bools, Int64s

NS_PER_MS = 1_000_000
# By linear interpolation between order statistics.
PERCENTILES = {"median_ms": 0.5, "p95_ms": 0.95}

Floats = npt.NDArray[np.float64]
Figures = dict[str, float | None]
NO_DELAY: Figures = {}


@dataclass(frozen=True, slots=True)
class RawDelays:
    """Raw delays in ms, NaN where unknown: receive less send time, by each end's clock."""

    forward_ms: Floats
    reverse_ms: Floats

    @classmethod
    def of(
        cls,
        left_ns: Int64s,
        far_received_ns: Int64s,
        far_sent_ns: Int64s,
        arrived_ns: Int64s,
        counted: Bools,
    ) -> RawDelays:
        """Delays of packets `counted`, all answered in time."""
        known = counted & (far_received_ns > 0)
        forward_ms = np.where(known, (far_received_ns - left_ns) / NS_PER_MS, np.nan)
        known = counted & (far_sent_ns > 0)
        return cls(forward_ms, np.where(known, (arrived_ns - far_sent_ns) / NS_PER_MS, np.nan))


def summaries(delays_ms: Floats) -> list[Figures]:
    """Minimum, median, 95th percentile, maximum and IPDV of each row, in ms."""
    ordered = np.sort(delays_ms, axis=1)
    counts = (~np.isnan(ordered)).sum(axis=1)
    columns: dict[str, Floats] = {"min_ms": ordered[:, 0], "max_ms": _at(ordered, np.maximum(counts - 1, 0))}
    for name, share in PERCENTILES.items():
        place = share * np.maximum(counts - 1, 0)
        below = np.floor(place).astype(np.int64)
        low, high = _at(ordered, below), _at(ordered, np.minimum(below + 1, np.maximum(counts - 1, 0)))
        columns[name] = low + (high - low) * (place - below)
    differences = np.abs(np.diff(delays_ms, axis=1))
    pairs = (~np.isnan(differences)).sum(axis=1)
    with np.errstate(invalid="ignore"):
        columns["ipdv_ms"] = np.where(pairs > 0, np.nansum(differences, axis=1) / np.maximum(pairs, 1), np.nan)
    lists = {name: values.round(6).tolist() for name, values in columns.items()}
    return [
        {name: None if np.isnan(values[row]) else values[row] for name, values in lists.items()} if count else NO_DELAY
        for row, count in enumerate(counts.tolist())
    ]


def _at(ordered: Floats, places: Int64s) -> Floats:
    return np.take_along_axis(ordered, places[:, np.newaxis], axis=1)[:, 0]


@dataclass(frozen=True, slots=True)
class OffsetInterval:
    """Bounds of the reflector's clock less our own."""

    lo_ms: float
    hi_ms: float
    clocks_agree: bool = True  # False if claimed clock errors contradict non-negative delays; then unused


def offset_interval(
    min_forward_ms: float | None, min_reverse_ms: float | None, claimed_ms: float | None
) -> OffsetInterval | None:
    """Offsets without negative delays, within the claimed clock errors, if any.

    Raw delays are the true plus (forward) or less (reverse) the offset. None without both.
    """
    if min_forward_ms is None or min_reverse_ms is None:
        return None
    lo_ms, hi_ms = -min_reverse_ms, min_forward_ms
    if lo_ms > hi_ms:
        # Timestamps of a round trip near 0 can be off by more than it took.
        lo_ms = hi_ms = (lo_ms + hi_ms) / 2
    if claimed_ms is None:
        return OffsetInterval(lo_ms, hi_ms)
    if max(lo_ms, -claimed_ms) > min(hi_ms, claimed_ms):
        return OffsetInterval(lo_ms, hi_ms, clocks_agree=False)
    return OffsetInterval(max(lo_ms, -claimed_ms), min(hi_ms, claimed_ms))

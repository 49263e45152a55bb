"""Quantile sketches of many groups: counts in buckets `growth^(key-1) < |value| / unit <= growth^key` ("DDSketch",
VLDB 2019), relative error (growth-1) / (growth+1). Concatenated sketches are the sketch of the
union.

Negative keys are negative values, 0 is at most one unit. Bytes are LEB128 numbers: 0, the zigzag-coded first key, then
for each bucket its key's distance from the previous (at least 1) and its count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.arrays import Floats, Ints

Bytes = NDArray[np.uint8]

_KEY_BITS = 16
_KEY_OFFSET = 1 << (_KEY_BITS - 1)
_LARGEST_KEY = _KEY_OFFSET - 1


@dataclass(frozen=True, slots=True)
class BucketScale:
    """Bucket scale; must not change once sketches are stored. A key has at most 15 bits."""

    unit: float
    growth: float

    def keys_of(self, values: Floats) -> Ints:
        sizes = np.abs(values) / self.unit
        with np.errstate(divide="ignore"):
            exponents = np.ceil(np.log(sizes) / math.log(self.growth))
        keys = np.where(sizes <= 1.0, 0.0, np.clip(exponents, 1.0, _LARGEST_KEY))
        return (np.sign(values) * keys).astype(np.int64)

    def values_of(self, keys: Ints) -> Floats:
        """Values with the same relative distance to both bounds of their bucket."""
        middles = self.unit * 2.0 * self.growth ** np.abs(keys).astype(np.float64) / (self.growth + 1.0)
        values: Floats = np.where(keys == 0, 0.0, np.sign(keys) * middles)
        return values


# A nanosecond, below the resolution of any clock in use; within 0.25%.
RTT_MS = BucketScale(unit=1e-6, growth=1.005)
# Differences spread over many buckets and need less precision; within 1%.
IPDV_MS = BucketScale(unit=1e-6, growth=1.02)
RATE_BPS = BucketScale(unit=1.0, growth=1.005)


@dataclass(frozen=True, slots=True)
class Sketches:
    """Sketches of groups: `count[i]` values of `group[i]` in bucket `key[i]`, sorted by group and key."""

    groups: int
    group: Ints
    key: Ints
    count: Ints

    @classmethod
    def of_values(cls, group: ArrayLike, values: ArrayLike, groups: int, scale: BucketScale) -> Sketches:
        """Sketch values; NaN is not counted."""
        numbers = np.asarray(values, dtype=np.float64)
        there = ~np.isnan(numbers)
        return _counted(groups, np.asarray(group)[there], scale.keys_of(numbers[there]), None)

    @classmethod
    def of_bytes(cls, stored: Sequence[bytes | None]) -> Sketches:
        """Parse a group, possibly several concatenated sketches, from each element; None is an empty group."""
        sizes = np.array([0 if part is None else len(part) for part in stored], dtype=np.int64)
        numbers, ends = _from_leb128(np.frombuffer(b"".join(part for part in stored if part), dtype=np.uint8))
        steps, counts = numbers[0::2], numbers[1::2]
        group = np.searchsorted(np.cumsum(sizes), ends[1::2], side="right")
        starts = np.flatnonzero(steps == 0)
        codes = counts[starts]
        bases = np.where(codes & 1, -(codes >> 1) - 1, codes >> 1)
        walked = np.cumsum(steps)
        lengths = np.diff(starts, append=len(steps))
        keys = walked + np.repeat(bases - walked[starts], lengths)
        buckets = steps > 0
        return _counted(len(stored), group[buckets], keys[buckets], counts[buckets])

    def to_bytes(self) -> list[bytes | None]:
        firsts = np.flatnonzero(np.diff(self.group, prepend=-1))
        before = self.key[firsts] - 1
        steps = np.diff(self.key, prepend=0)
        steps[firsts] = 1
        pairs = np.column_stack((steps, self.count))
        starts = np.column_stack((np.zeros_like(before), np.where(before < 0, -2 * before - 1, 2 * before)))
        packed, sizes = _to_leb128(np.insert(pairs, firsts, starts, axis=0).ravel())
        whose = np.repeat(np.insert(self.group, firsts, self.group[firsts]), 2)
        ends = np.cumsum(np.bincount(whose, weights=sizes, minlength=self.groups).astype(np.int64)).tolist()
        return [packed[start:end] or None for start, end in zip([0, *ends], ends, strict=False)]

    def quantiles(self, shares: Sequence[float], scale: BucketScale) -> Floats:
        """Quantiles at `shares` (0 to 1), shape (groups, shares), interpolated as in NumPy; NaN for an empty group. The
        relative error holds between order statistics of the same sign."""
        below = np.concatenate(([0], np.cumsum(self.count)))
        firsts = np.searchsorted(self.group, np.arange(self.groups + 1))
        before, sizes = below[firsts[:-1]], np.diff(below[firsts])
        result = np.full((self.groups, len(shares)), np.nan)
        some = sizes > 0
        if some.any():
            middles = scale.values_of(self.key)
            for column, share in enumerate(shares):
                position = share * (sizes[some] - 1)
                rank = np.floor(position).astype(np.int64)
                lower, upper = (
                    middles[np.searchsorted(below, before[some] + at, side="right") - 1]
                    for at in (rank, np.minimum(rank + 1, sizes[some] - 1))
                )
                result[some, column] = lower + (position - rank) * (upper - lower)
        return result


def _counted(groups: int, group: Ints, keys: Ints, counts: ArrayLike | None) -> Sketches:
    both = (group.astype(np.int64) << _KEY_BITS) | (keys + _KEY_OFFSET)
    if counts is None:
        present, totals = np.unique(both, return_counts=True)
    else:
        order = np.argsort(both, kind="stable")
        ordered = both[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        present = ordered[starts]
        weights = np.asarray(counts, dtype=np.int64)[order]
        totals = np.add.reduceat(weights, starts) if len(starts) else weights
    return Sketches(groups, present >> _KEY_BITS, (present & (2 * _KEY_OFFSET - 1)) - _KEY_OFFSET, totals)


def _to_leb128(numbers: Ints) -> tuple[bytes, Ints]:
    sizes = np.ones(len(numbers), dtype=np.int64)
    rest = numbers >> 7
    while rest.any():
        sizes += rest > 0
        rest >>= 7
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    more = within < np.repeat(sizes - 1, sizes)
    packed = (np.repeat(numbers, sizes) >> (7 * within)) & 0x7F | more << 7
    return packed.astype(np.uint8).tobytes(), sizes


def _from_leb128(packed: Bytes) -> tuple[Ints, Ints]:
    """Numbers, and the position where each ends."""
    ends = np.flatnonzero(packed < 0x80)
    if not len(ends):
        return ends, ends
    starts = np.concatenate(([0], ends[:-1] + 1))
    within = np.arange(len(packed)) - np.repeat(starts, ends - starts + 1)
    return np.add.reduceat((packed & 0x7F).astype(np.int64) << (7 * within), starts), ends

"""Quantile sketches: counts of values in buckets whose bounds grow by a constant factor.

A value lies in the bucket `key` with growth^(key-1) < |value| / unit <= growth^key and stands for the bucket's middle:
a relative error of at most (growth-1) / (growth+1) (the buckets of C. Masson, J. Rim, H. Lee, "DDSketch", VLDB 2019).
Keys begin at 1, are negative for negative values, and 0 is everything of at most one unit. The concatenation of
sketches is the sketch of their union: a bucket may occur twice, its counts add up. So merging is lossless, in any
order.

In and out: the sketches of many groups at once, as arrays; as bytes for storing, mostly 2 for a bucket. Not here: the
storage of sketches (`monitor.archive`).

The bytes are pairs of unsigned numbers in LEB128 (seven bits a byte, the lowest first, the top bit set on all but the
last byte): first 0 and where the keys start from, zigzag-coded (0, -1, 1, -2, … as 0, 1, 2, 3, …); then for each
bucket the distance of its key from the previous key, 1 or more, and its count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
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
        """The bucket of each value."""
        sizes = np.abs(values) / self.unit
        with np.errstate(divide="ignore"):
            exponents = np.ceil(np.log(sizes) / math.log(self.growth))
        keys = np.where(sizes <= 1.0, 0.0, np.clip(exponents, 1.0, _LARGEST_KEY))
        return (np.sign(values) * keys).astype(np.int64)

    def values_of(self, keys: Ints) -> Floats:
        """Representative value of each bucket: the value with the same relative distance to both bounds."""
        middles = self.unit * 2.0 * self.growth ** np.abs(keys).astype(np.float64) / (self.growth + 1.0)
        values: Floats = np.where(keys == 0, 0.0, np.sign(keys) * middles)
        return values


RTT_MS = BucketScale(unit=1e-6, growth=1.005)
"""A nanosecond, below the resolution of any clock in use; within 0.25%."""
IPDV_MS = BucketScale(unit=1e-6, growth=1.02)
"""Differences spread over many buckets and need less precision; within 1%."""
RATE_BPS = BucketScale(unit=1.0, growth=1.005)


@dataclass(frozen=True, slots=True)
class Sketches:
    """The sketches of `groups` groups: `count[i]` values of `group[i]` in bucket `key[i]`, sorted by group and key."""

    groups: int
    group: Ints
    key: Ints
    count: Ints

    @classmethod
    def of_values(cls, group: ArrayLike, values: ArrayLike, groups: int, scale: BucketScale) -> Sketches:
        """Count `values[i]` in the sketch of `group[i]`; NaN counts nowhere."""
        numbers = np.asarray(values, dtype=np.float64)
        there = ~np.isnan(numbers)
        return _counted(groups, np.asarray(group)[there], scale.keys_of(numbers[there]), None)

    @classmethod
    def of_bytes(cls, stored: Sequence[bytes | None]) -> Sketches:
        """Parse a group from each element, which may be several concatenated sketches; None is an empty group."""
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
        """Encode each group; None where it is empty."""
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
        """The quantiles at `shares` (0 to 1) of each group, shape (groups, shares), interpolated linearly between order
        statistics as NumPy's default does; NaN for an empty group.

        Each is within the relative error of the buckets where the two order statistics beside it have the same sign.
        """
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
    """Sketches of unsorted entries: sorted, buckets merged. Group and key are sorted as a single number."""
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
    """LEB128 bytes of all numbers, and the length of each."""
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
    """Numbers, and the position in the bytes where each ends."""
    ends = np.flatnonzero(packed < 0x80)
    if not len(ends):
        return ends, ends
    starts = np.concatenate(([0], ends[:-1] + 1))
    within = np.arange(len(packed)) - np.repeat(starts, ends - starts + 1)
    return np.add.reduceat((packed & 0x7F).astype(np.int64) << (7 * within), starts), ends

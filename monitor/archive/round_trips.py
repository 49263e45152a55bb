"""Unpack concatenated `array_send` bytes of `real[]` into an array (bursts, packets), padded with NaN."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_WORD = np.dtype(">u4")
# Array head: number of dimensions, null flag and element type; then size and first index of its dimension.
_HEADER_WORDS = 5
_EMPTY_WORDS = 3
# Element: length in bytes, and value.
_ELEMENT_WORDS = 2


def unpack_groups(
    packets: Sequence[bytes | None], sent_arrays: Sequence[bytes | None]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Unpack groups' `string_agg` of `int2send` and `array_send`: each burst's group number, packets sent, and RTTs in
    ms."""
    group = np.repeat(np.arange(len(packets)), [len(packed or b"") // 2 for packed in packets])
    numbers = unpack_numbers(packets)
    return group, numbers, unpack(numbers, b"".join(packed or b"" for packed in sent_arrays))


def unpack_numbers(packed: Sequence[bytes | None]) -> NDArray[np.int64]:
    """Unpack all groups' `string_agg` of `int2send`."""
    return np.frombuffer(b"".join(numbers or b"" for numbers in packed), dtype=">i2").astype(np.int64)


def unpack(packets: NDArray[np.int64], sent_arrays: bytes) -> NDArray[np.float64]:
    """RTTs in ms; `packets` has each array's length."""
    # Ten times as fast as Python floats.
    words = np.frombuffer(sent_arrays, dtype=_WORD)
    sizes = np.where(packets > 0, _HEADER_WORDS + _ELEMENT_WORDS * packets, _EMPTY_WORDS)
    starts = np.cumsum(sizes) - sizes
    round_trips = np.full((len(packets), packets.max(initial=0)), np.nan)
    for count in np.unique(packets).tolist():
        bursts = np.flatnonzero(packets == count)
        places = _HEADER_WORDS + 1 + _ELEMENT_WORDS * np.arange(count)
        round_trips[bursts, :count] = words[starts[bursts, np.newaxis] + places].view(">f4")
    return round_trips

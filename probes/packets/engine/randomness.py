"""Random numbers from the kernel, as arrays; `numpy.random` would take 2 MB of memory."""

from __future__ import annotations

import math
import os
from typing import Protocol

import numpy as np
import numpy.typing as npt

from probes.packets.arrays import Int64s

Floats = npt.NDArray[np.float64]


class Uniform(Protocol):
    """A source of numbers uniform in [0, 1)."""

    def random(self, size: int | tuple[int, int], /) -> Floats: ...


class KernelRandom:
    def random(self, size: int | tuple[int, int], /) -> Floats:
        count = size if isinstance(size, int) else math.prod(size)
        words = np.frombuffer(os.urandom(8 * count), np.uint64)
        return ((words >> np.uint64(11)) * np.float64(2.0**-53)).astype(np.float64).reshape(size)

    def permutation(self, count: int, /) -> Int64s:
        return np.argsort(self.random(count))

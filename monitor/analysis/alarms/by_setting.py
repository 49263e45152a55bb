"""Settings of a rule as arrays with a value for each path: a loop over many paths takes as long as the rule.

In: the settings by path; paths with the same settings share an object. Out: the few distinct settings, and arrays in
the order of the paths.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

S = TypeVar("S")


def distinct(settings: Mapping[int, S]) -> list[S]:
    """Each object among the settings once."""
    return list(dict(zip(map(id, settings.values()), settings.values(), strict=True)).values())


def each(settings: Mapping[int, S], value: Callable[[S], float]) -> NDArray[np.float64]:
    """A value of the settings of each path; `value` is asked once for each object."""
    values = {id(rule): value(rule) for rule in distinct(settings)}
    if len(values) == 1:
        return np.full(len(settings), next(iter(values.values())), dtype=np.float64)
    return np.array([values[of] for of in map(id, settings.values())], dtype=np.float64)


def rows_of(path_ids: Collection[int], rows: Mapping[int, int]) -> NDArray[np.int64]:
    """The row of each of these paths."""
    return np.fromiter(map(rows.__getitem__, path_ids), dtype=np.int64, count=len(path_ids))

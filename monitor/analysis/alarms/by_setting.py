"""Settings of a rule by path, as arrays. Paths with the same settings share an object."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, ValuesView
from itertools import repeat
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

S = TypeVar("S")


class OneForAll(Mapping[int, S]):
    """The same settings on all these paths, without a dict (5 MB for 100,000 paths)."""

    def __init__(self, settings: S, path_ids: Collection[int]) -> None:
        self.settings = settings
        self._path_ids = path_ids

    def __getitem__(self, path_id: int) -> S:
        if path_id in self._path_ids:
            return self.settings
        raise KeyError(path_id)

    def __iter__(self) -> Iterator[int]:
        return iter(self._path_ids)

    def __len__(self) -> int:
        return len(self._path_ids)

    def values(self) -> ValuesView[S]:
        return _SameValues(self)


class _SameValues(ValuesView[S]):
    """Repeats the settings without a look-up per path."""

    def __init__(self, of: OneForAll[S]) -> None:
        super().__init__(of)
        self._of = of

    def __iter__(self) -> Iterator[S]:
        return repeat(self._of.settings, len(self._of))


def distinct(settings: Mapping[int, S]) -> list[S]:
    """Each object among the settings once."""
    if isinstance(settings, OneForAll):
        return [settings.settings] if settings else []
    return list(dict(zip(map(id, settings.values()), settings.values(), strict=True)).values())


def each(settings: Mapping[int, S], value: Callable[[S], float]) -> NDArray[np.float64]:
    """`value` of each path's settings, called once per object."""
    values = {id(rule): value(rule) for rule in distinct(settings)}
    if len(values) == 1:
        return np.full(len(settings), next(iter(values.values())), dtype=np.float64)
    return np.array([values[of] for of in map(id, settings.values())], dtype=np.float64)


def rows_of(path_ids: Collection[int], rows: Mapping[int, int]) -> NDArray[np.int64]:
    return np.fromiter(map(rows.__getitem__, path_ids), dtype=np.int64, count=len(path_ids))

"""Differences of two routes of a path: TTLs, and aligned blocks of addresses or AS. A silent hop or unknown AS agrees
with every other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Generic, TypeVar

from monitor.analysis.routes.compare import RouteHops, is_compatible

Value = TypeVar("Value", str, int)


@dataclass(frozen=True, slots=True)
class _Costs:
    """Costs of an alignment: two gaps cost more than a replacement, so that elements at the same place pair."""

    unknown: int  # an unknown element beside another
    unknown_gap: int
    gap: int = 2
    replacement: int = 3
    beyond: int = 1  # an element beyond the end of an incomplete route


OF_HOPS = _Costs(unknown=1, unknown_gap=2)
# A silent hop is a hop; hops of unknown AS often belong to the AS before or after them.
OF_AS = _Costs(unknown=2, unknown_gap=0)


class BlockKind(StrEnum):
    UNCHANGED = "unchanged"
    REPLACED = "replaced"
    INSERTED = "inserted"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Block(Generic[Value]):
    """Consecutive hops or AS of both routes, None where unknown."""

    kind: BlockKind
    before: tuple[Value | None, ...]
    after: tuple[Value | None, ...]
    before_ttls: tuple[int, int] | None  # first and last; None for an empty side
    after_ttls: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Difference:
    first_ttl: int
    last_ttl_before: int  # below first_ttl in a route without the part
    last_ttl_after: int


def difference(before: RouteHops, after: RouteHops) -> Difference | None:
    """The first and the last TTL at which two routes differ; None if they are compatible."""
    blocks = diff(before, after)
    changed = [place for place, block in enumerate(blocks) if block.kind is not BlockKind.UNCHANGED]
    if not changed:
        return None
    first = 1 + sum(len(block.before) for block in blocks[: changed[0]])
    in_change = blocks[changed[0] : changed[-1] + 1]
    lengths = sum(len(block.before) for block in in_change), sum(len(block.after) for block in in_change)
    return Difference(first, first + lengths[0] - 1, first + lengths[1] - 1)


def diff(before: RouteHops, after: RouteHops) -> tuple[Block[str], ...]:
    """Both routes in blocks of hops; a single unchanged block if compatible. Hops beyond an incomplete route's end are
    unchanged."""
    sides = (
        [_Element(address, ttl, ttl) for ttl, address in enumerate(before.hops, 1)],
        [_Element(address, ttl, ttl) for ttl, address in enumerate(after.hops, 1)],
    )
    if is_compatible(before, after):
        common = min(len(before.hops), len(after.hops))
        columns: list[Column] = [(place, place) for place in range(common)]
        columns += [(place, None) for place in range(common, len(before.hops))]
        columns += [(None, place) for place in range(common, len(after.hops))]
        return _blocks(columns, [False] * len(columns), *sides)
    columns = _align(*sides, before.reached, after.reached, OF_HOPS)
    return _blocks(columns, _changed(columns, *sides, before.reached, after.reached), *sides)


def diff_as(before: RouteHops, after: RouteHops, as_of: Callable[[str], int | None]) -> tuple[Block[int], ...]:
    """Both routes in blocks of AS; `as_of` gives None where unknown, as in an IXP, which is no change."""
    before, after = _filled(before, after)
    sides = _as_runs(before, as_of), _as_runs(after, as_of)
    columns = _align(*sides, before.reached, after.reached, OF_AS)
    changed = _changed(columns, *sides, before.reached, after.reached)
    for place, (x, y) in enumerate(columns):
        if (x is None or sides[0][x].value is None) and (y is None or sides[1][y].value is None):
            changed[place] = False
    return _blocks(columns, changed, *sides)


# Indexes of elements side by side, None for a gap.
Column = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class _Element(Generic[Value]):
    """An address or an AS, and its TTLs."""

    value: Value | None
    first_ttl: int
    last_ttl: int


def _filled(before: RouteHops, after: RouteHops) -> tuple[RouteHops, RouteHops]:
    sides: tuple[list[str | None], list[str | None]] = [], []
    for block in diff(before, after):
        left, right = block.before, block.after
        if block.kind is BlockKind.UNCHANGED:
            common = [x if x is not None else y for x, y in zip(left, right, strict=False)]
            left, right = (*common, *left[len(common) :]), (*common, *right[len(common) :])
        sides[0].extend(left)
        sides[1].extend(right)
    return RouteHops(tuple(sides[0]), before.reached), RouteHops(tuple(sides[1]), after.reached)


def _as_runs(route: RouteHops, as_of: Callable[[str], int | None]) -> list[_Element[int]]:
    """Hops of unknown AS between two of the same AS belong to it."""
    runs: list[_Element[int]] = []
    for ttl, address in enumerate(route.hops, 1):
        number = None if address is None else as_of(address)
        if len(runs) >= 2 and number is not None and runs[-1].value is None and runs[-2].value == number:
            runs.pop()
        first = runs.pop().first_ttl if runs and runs[-1].value == number else ttl
        runs.append(_Element(number, first, ttl))
    return runs


def _align(
    before: Sequence[_Element[Value]],
    after: Sequence[_Element[Value]],
    reached_before: bool,
    reached_after: bool,
    costs: _Costs,
) -> list[Column]:
    # The cheapest alignment (Needleman and Wunsch 1970).
    rows, width = len(before), len(after)

    def moves(i: int, j: int) -> list[tuple[int, int, int]]:
        """(Cost, step in `before`, step in `after`) of each next move."""
        ways = []
        x, y = before[i].value if i < rows else None, after[j].value if j < width else None
        if i < rows and j < width:
            ways.append((costs.unknown if (x is None) != (y is None) else 0 if x == y else costs.replacement, 1, 1))
        if i < rows:
            beyond = j == width and not reached_after
            ways.append((costs.beyond if beyond else costs.unknown_gap if x is None else costs.gap, 1, 0))
        if j < width:
            beyond = i == rows and not reached_before
            ways.append((costs.beyond if beyond else costs.unknown_gap if y is None else costs.gap, 0, 1))
        return ways

    cost = [[0] * (width + 1) for _ in range(rows + 1)]
    for i in range(rows, -1, -1):
        for j in range(width, -1, -1):
            cost[i][j] = min((price + cost[i + di][j + dj] for price, di, dj in moves(i, j)), default=0)
    columns: list[Column] = []
    i = j = 0
    while i < rows or j < width:
        di, dj = next((di, dj) for price, di, dj in moves(i, j) if price + cost[i + di][j + dj] == cost[i][j])
        columns.append((i if di else None, j if dj else None))
        i, j = i + di, j + dj
    return columns


def _changed(
    columns: Sequence[Column],
    before: Sequence[_Element[Value]],
    after: Sequence[_Element[Value]],
    reached_before: bool,
    reached_after: bool,
) -> list[bool]:
    ends = (
        max((place for place, (x, _) in enumerate(columns) if x is not None), default=-1),
        max((place for place, (_, y) in enumerate(columns) if y is not None), default=-1),
    )
    marks: list[bool | None] = []
    for place, (x, y) in enumerate(columns):
        if x is None or y is None:
            marks.append(not (place > ends[0] and not reached_before) and not (place > ends[1] and not reached_after))
        else:
            own, other = before[x].value, after[y].value
            marks.append(None if own is None or other is None else own != other)
    changed: list[bool] = []
    for place, mark in enumerate(marks):
        following = next((later for later in marks[place:] if later is not None), False)
        changed.append((bool(changed) and changed[-1] and following) if mark is None else mark)
    return changed


def _blocks(
    columns: Sequence[Column],
    changed: Sequence[bool],
    before: Sequence[_Element[Value]],
    after: Sequence[_Element[Value]],
) -> tuple[Block[Value], ...]:
    blocks = []
    for is_changed, group in groupby(zip(columns, changed, strict=True), key=lambda entry: entry[1]):
        pairs = [pair for pair, _ in group]
        left = [before[x] for x, _ in pairs if x is not None]
        right = [after[y] for _, y in pairs if y is not None]
        if not is_changed:
            kind = BlockKind.UNCHANGED
        else:
            kind = BlockKind.REPLACED if left and right else BlockKind.REMOVED if left else BlockKind.INSERTED
        blocks.append(
            Block(
                kind,
                tuple(element.value for element in left),
                tuple(element.value for element in right),
                (left[0].first_ttl, left[-1].last_ttl) if left else None,
                (right[0].first_ttl, right[-1].last_ttl) if right else None,
            )
        )
    return tuple(blocks)

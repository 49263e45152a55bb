"""Deterministic layered layout of a graph, from left to right.

Columns are ordered by barycentres (Sugiyama, Tagawa and Toda 1981), with bends for passing links; heights minimise the
squared distance to neighbours by isotonic regression.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Keys = Sequence[str]
Link = tuple[str, str]
COLUMN_GAP = 74.0
ROW_GAP = 14.0
BEND_HEIGHT = 6.0
MARGIN = 12.0
SWEEPS = 12
MOST_COLUMNS = 20


@dataclass(frozen=True, slots=True)
class Box:
    """Centre and size, in pixels."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """Bends of links across columns are in link order."""

    boxes: dict[str, Box]
    bends: dict[Link, list[Box]]
    width: float
    height: float


def arrange(
    chains: Sequence[Keys], sizes: Mapping[str, tuple[float, float]], start: Collection[str] = ()
) -> GraphLayout:
    """Put the ends in `start` on the left, by default half of them."""
    columns = _columns(chains, start)
    links = sorted(
        {(a, b) if columns[a] <= columns[b] else (b, a) for keys in chains for a, b in pairwise(keys) if a != b}
    )
    routed = {link: _bend_keys(link, columns) for link in links}
    for link, keys in routed.items():
        columns |= {key: columns[link[0]] + place for place, key in enumerate(keys, 1)}
    neighbours: dict[str, set[str]] = defaultdict(set)
    for (a, b), keys in routed.items():
        for near, far in pairwise([a, *keys, b]):
            if columns[near] != columns[far]:
                neighbours[near].add(far)
                neighbours[far].add(near)
    rows = _ordered(columns, neighbours)
    heights = {key: sizes[key][1] if key in sizes else BEND_HEIGHT for key in columns}
    ys = _heights(rows, neighbours, heights)
    widths = [max((sizes[key][0] for key in row if key in sizes), default=0.0) for row in rows]
    lefts = [MARGIN + sum(widths[:place]) + place * COLUMN_GAP for place in range(len(widths))]
    boxes = {
        key: Box(
            lefts[place] + widths[place] / 2, ys[key], sizes[key][0] if key in sizes else widths[place], heights[key]
        )
        for place, row in enumerate(rows)
        for key in row
    }
    bottom = max((box.y + box.height / 2 for box in boxes.values()), default=0.0)
    return GraphLayout(
        {key: boxes[key] for key in sizes if key in boxes},
        {link: [boxes[key] for key in keys] for link, keys in routed.items()},
        (lefts[-1] + widths[-1] if widths else 0.0) + MARGIN,
        bottom + MARGIN,
    )


def _columns(chains: Sequence[Keys], start: Collection[str]) -> dict[str, int]:
    left = set(start) or _left_half(chains)
    ends = {end for keys in chains for end in (keys[0], keys[-1])}
    places: dict[str, list[float]] = defaultdict(list)
    for keys in chains:
        for place, key in enumerate(keys[1:-1], 1):
            share = place / (len(keys) - 1)
            places[key].append(_from_left(share, keys[0] in left, keys[-1] in left))
    most = min(max((len(keys) - 2 for keys in chains), default=0), MOST_COLUMNS)
    inner = {key: 1 + min(most - 1, int(sum(shares) / len(shares) * most + 1e-9)) for key, shares in places.items()}
    columns = {**inner, **{end: 0 if end in left else most + 1 for end in ends}}
    used = {column: place for place, column in enumerate(sorted(set(columns.values())))}
    return {key: used[columns[key]] for key in sorted(columns)}


def _from_left(share: float, source_is_left: bool, destination_is_left: bool) -> float:
    """Convert a place, 0 at the source to 1 at the destination, to left-to-right."""
    if source_is_left and destination_is_left:
        return min(share, 1 - share)
    if source_is_left or destination_is_left:
        return share if source_is_left else 1 - share
    return max(share, 1 - share)


def _left_half(chains: Sequence[Keys]) -> set[str]:
    access: dict[str, Counter[str]] = defaultdict(Counter)
    for keys in chains:
        access[keys[0]][keys[1]] += 1
        access[keys[-1]][keys[-2]] += 1
    behind = {end: min(counts, key=lambda key: (-counts[key], key)) for end, counts in access.items()}
    ends = sorted(access, key=lambda end: (behind[end], end))
    middle = len(ends) / 2
    borders = [place for place in range(1, len(ends)) if behind[ends[place - 1]] != behind[ends[place]]]
    border = min(borders, key=lambda place: (abs(place - middle), place), default=round(middle))
    return set(ends[: border if abs(border - middle) <= middle / 2 else max(1, round(middle))])


def _bend_keys(link: Link, columns: Mapping[str, int]) -> list[str]:
    first, last = (columns[key] for key in link)
    return [f"bend:{link[0]}|{link[1]}|{column}" for column in range(first + 1, last)]


def _ordered(columns: Mapping[str, int], neighbours: Mapping[str, set[str]]) -> list[list[str]]:
    rows: list[list[str]] = [[] for _ in range(max(columns.values(), default=-1) + 1)]
    for key in sorted(columns):
        rows[columns[key]].append(key)
    for sweep in range(SWEEPS):
        places = range(1, len(rows)) if sweep % 2 == 0 else range(len(rows) - 2, -1, -1)
        for place in places:
            beside = rows[place - 1 if sweep % 2 == 0 else place + 1]
            index = {key: (number + 0.5) / len(beside) for number, key in enumerate(beside)}
            rows[place] = _by_barycentre(rows[place], index, neighbours)
    return rows


def _by_barycentre(row: list[str], index: Mapping[str, float], neighbours: Mapping[str, set[str]]) -> list[str]:
    centres = {}
    for number, key in enumerate(row):
        near = [index[other] for other in neighbours[key] if other in index] if key in neighbours else []
        centres[key] = sum(sorted(near)) / len(near) if near else (number + 0.5) / len(row)
    return sorted(row, key=lambda key: centres[key])


def _heights(
    rows: Sequence[Sequence[str]], neighbours: Mapping[str, set[str]], heights: Mapping[str, float]
) -> dict[str, float]:
    offsets = {}
    for row in rows:
        below = 0.0
        for before, key in pairwise(["", *row]):
            below += (heights[before] + heights[key]) / 2 + ROW_GAP if before else 0.0
            offsets[key] = below
    ys = {key: offsets[key] - offsets[row[-1]] / 2 for row in rows for key in row}
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = [_mean((ys[other] for other in neighbours.get(key, ())), ys[key]) - offsets[key] for key in row]
            for key, slack in zip(row, _isotonic(wanted), strict=True):
                ys[key] = slack + offsets[key]
    top = min((ys[key] - heights[key] / 2 for key in ys), default=0.0)
    return {key: y - top + MARGIN for key, y in ys.items()}


def _mean(numbers: Iterable[float], default: float) -> float:
    values = sorted(numbers)
    return sum(values) / len(values) if values else default


def _isotonic(values: Sequence[float]) -> list[float]:
    """Non-decreasing sequence of least squared distance, by pooling adjacent violators."""
    pools: list[tuple[float, int]] = []
    for value in values:
        total, size = value, 1
        while pools and pools[-1][0] / pools[-1][1] > total / size:
            before = pools.pop()
            total, size = total + before[0], size + before[1]
        pools.append((total, size))
    return [total / size for total, size in pools for _ in range(size)]

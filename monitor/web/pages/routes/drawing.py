"""Graph of routes as SVG. A state shows as a sign and a line style too, never by colour alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from monitor.analysis import figures
from monitor.archive.queries.path_states import PathState
from monitor.web.pages.routes.layout import Box, GraphLayout, arrange
from monitor.web.pages.routes.parts import BLOCKS, ENDS, Chain, GraphPart, PartKind

LETTER = 8.1
SMALL_LETTER = 7.2
LONGEST_LABEL = 24
BOX_HEIGHT = 40.0
SILENT_SIZE = 24.0
OPENER = 24.0
SIGNS = {PathState.PROBLEM: "▲", PathState.NO_DATA: "?", PathState.MAINTENANCE: "⚒"}
STYLES = {
    PathState.PROBLEM: "problem",
    PathState.NO_DATA: "no-data",
    PathState.MAINTENANCE: "maintenance",
    PathState.AWAITED: "awaited",
    PathState.NORMAL: "normal",
}
LinkKey = tuple[str, str, bool]


@dataclass(frozen=True, slots=True)
class PartUsage:
    counts: Mapping[PathState, int]

    @property
    def paths(self) -> int:
        return sum(self.counts.values())

    @property
    def problems(self) -> int:
        return self.counts.get(PathState.PROBLEM, 0)

    @property
    def worst(self) -> PathState:
        return next((state for state in PathState if self.counts.get(state)), PathState.NORMAL)

    @property
    def style(self) -> str:
        return STYLES[self.worst]

    @property
    def sign(self) -> str:
        return SIGNS.get(self.worst, "")

    @property
    def short(self) -> str:
        """`2 of 6 paths`."""
        bad = self.counts.get(self.worst, 0)
        return f"{figures.count(bad)} of {_paths(self.paths)}" if self.sign else _paths(self.paths)

    @property
    def sentence(self) -> str:
        """`2 of 6 paths through it have problems.`"""
        return f"{self._of_state(self.worst)}."

    def _of_state(self, state: PathState) -> str:
        number, total = self.counts.get(state, 0), self.paths
        if state is PathState.NORMAL:
            return f"all {_paths(total)} through it are normal" if total > 1 else "the path through it is normal"
        have = "has" if number == 1 else "have"
        words = {
            PathState.PROBLEM: f"{have} problems",
            PathState.NO_DATA: f"{have} no data",
            PathState.MAINTENANCE: f"{'is' if number == 1 else 'are'} in maintenance",
            PathState.AWAITED: f"{'is' if number == 1 else 'are'} waiting for first results",
        }[state]
        return f"{figures.count(number)} of {_paths(total)} through it {words}"


def _paths(number: int) -> str:
    return f"{figures.count(number)} path{'s' if number != 1 else ''}"


@dataclass(frozen=True, slots=True)
class PartRow:
    part: GraphPart
    usage: PartUsage
    hops: int  # known hops on these paths
    link: str | None
    toggle: str | None  # opens or closes a block; None where neither can be
    is_open: bool

    @property
    def words(self) -> str:
        return f"{self.part.words}: {self.usage.sentence}"


@dataclass(frozen=True, slots=True)
class LinkRow:
    """A link between two parts; with `has_gap`, routes have silent hops between."""

    near: GraphPart
    far: GraphPart
    has_gap: bool
    usage: PartUsage
    link: str

    @property
    def name(self) -> str:
        return f"{self.near.label} – {self.far.label}"

    @property
    def words(self) -> str:
        between = ", unknown hops between" if self.has_gap else ""
        return f"{self.near.words} – {self.far.words}{between}: {self.usage.sentence}"


@dataclass(frozen=True, slots=True)
class DrawnPart:
    row: PartRow
    box: Box
    text: str
    detail: str

    @property
    def left(self) -> float:
        return self.box.x - self.box.width / 2

    @property
    def top(self) -> float:
        return self.box.y - self.box.height / 2

    @property
    def opener_left(self) -> float:
        return self.left + self.box.width - OPENER


@dataclass(frozen=True, slots=True)
class DrawnLink:
    row: LinkRow
    shape: str


@dataclass(frozen=True, slots=True)
class Graph:
    """Parts and links, worst first; too large a drawing is left out."""

    parts: list[PartRow]
    links: list[LinkRow]
    boxes: list[DrawnPart]
    lines: list[DrawnLink]
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Addresses:
    of_part: Callable[[GraphPart], str | None]
    of_link: Callable[[GraphPart, GraphPart], str]
    toggle: Callable[[str], str]
    opened: Collection[str]


def graph(
    chains: Sequence[Chain], states: Mapping[int, PathState], addresses: Addresses, start: Collection[str], most: int
) -> Graph:
    """Leave out a drawing of more than `most` parts."""
    parts = {step.part.key: step.part for row in chains for step in row.steps}
    through: dict[str, set[int]] = defaultdict(set)
    over: dict[LinkKey, set[int]] = defaultdict(set)
    hops: dict[str, set[str]] = defaultdict(set)
    for row in chains:
        for step in row.steps:
            through[step.part.key].add(row.path_id)
            hops[step.part.key].update(step.addresses)
        for before, step in pairwise(row.steps):
            near, far = sorted((before.part.key, step.part.key))
            if near != far:
                over[near, far, step.after_gap].add(row.path_id)

    def usage(path_ids: set[int]) -> PartUsage:
        return PartUsage(Counter(states[path_id] for path_id in path_ids))

    part_rows = {
        key: _part_row(_named(part, hops[key]), usage(through[key]), len(hops[key]), addresses)
        for key, part in parts.items()
    }
    link_rows = {
        (near, far, gap): LinkRow(
            part_rows[near].part, part_rows[far].part, gap, usage(ids), addresses.of_link(parts[near], parts[far])
        )
        for (near, far, gap), ids in over.items()
    }
    boxes: list[DrawnPart] = []
    lines: list[DrawnLink] = []
    width = height = 0.0
    if len(parts) <= most:
        placed = arrange([row.keys for row in chains], {key: _size(row) for key, row in part_rows.items()}, start)
        boxes = [DrawnPart(row, placed.boxes[key], *_texts(row)) for key, row in sorted(part_rows.items())]
        lines = [DrawnLink(row, _shape(key, placed)) for key, row in sorted(link_rows.items())]
        # The worst last, above the others.
        lines.sort(key=lambda line: list(PathState).index(line.row.usage.worst), reverse=True)
        width, height = placed.width, placed.height
    return Graph(
        sorted(part_rows.values(), key=lambda row: (_badness(row.usage), row.part.kind in ENDS, row.part.key)),
        sorted(link_rows.values(), key=lambda row: (_badness(row.usage), row.name)),
        boxes,
        lines,
        width,
        height,
    )


def _badness(usage: PartUsage) -> tuple[float, int]:
    return -usage.problems / usage.paths, -usage.paths


def _named(part: GraphPart, hops: Collection[str]) -> GraphPart:
    if part.kind is PartKind.PREFIX and len(hops) == 1:
        return GraphPart(part.key, part.kind, next(iter(hops)), part.detail)
    return part


def _part_row(part: GraphPart, usage: PartUsage, hops: int, addresses: Addresses) -> PartRow:
    block = part.key if part.kind in BLOCKS or part.kind is PartKind.REGION else part.block
    can_open = part.kind is not PartKind.PREFIX or hops > 1
    toggle = addresses.toggle(block) if block is not None and can_open else None
    return PartRow(part, usage, hops, addresses.of_part(part), toggle, block is not None and block != part.key)


def _texts(row: PartRow) -> tuple[str, str]:
    words = row.part.words if row.part.kind in (PartKind.AS, PartKind.REGION) else row.part.label
    name = words if len(words) <= LONGEST_LABEL else f"{words[: LONGEST_LABEL - 1]}…"
    return name, f"{row.usage.sign} {row.usage.short}".strip()


def _size(row: PartRow) -> tuple[float, float]:
    if row.part.kind is PartKind.SILENT:
        return SILENT_SIZE, SILENT_SIZE
    name, count = _texts(row)
    button = OPENER if row.toggle is not None else 0.0
    return max(len(name) * LETTER, len(count) * SMALL_LETTER) + 18 + button, BOX_HEIGHT


def _shape(key: LinkKey, placed: GraphLayout) -> str:
    near, far, has_gap = key
    link = (near, far) if (near, far) in placed.bends else (far, near)
    first, last = placed.boxes[link[0]], placed.boxes[link[1]]
    shift = 4 if has_gap else 0
    if abs(first.x - last.x) < 1:
        start, end = first.x + first.width / 2, last.x + last.width / 2
        out, y0, y1 = max(start, end) + 42, first.y + shift, last.y + shift
        return f"M{start:.1f} {y0:.1f}C{out:.1f} {y0:.1f} {out:.1f} {y1:.1f} {end:.1f} {y1:.1f}"
    boxes = [first, *placed.bends[link], last]
    parts = [f"M{first.x + first.width / 2:.1f} {_port(first, boxes[1]) + shift:.1f}"]
    for before, box in pairwise(boxes):
        x0, y0 = before.x + before.width / 2, _port(before, box) + shift
        x1, y1 = box.x - box.width / 2, _port(box, before) + shift
        middle = (x0 + x1) / 2
        parts.append(f"C{middle:.1f} {y0:.1f} {middle:.1f} {y1:.1f} {x1:.1f} {y1:.1f}")
        if box is not last:
            parts.append(f"H{box.x + box.width / 2:.1f}")
    return "".join(parts)


def _port(box: Box, toward: Box) -> float:
    """Height where a line leaves a box."""
    most = max(0.0, box.height / 2 - 6)
    # Slightly toward its end, so that lines part at once.
    return box.y + max(-most, min(most, (toward.y - box.y) * 0.12))

"""Two routes side by side: a silent hop or an unknown AS agrees with every other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest

from monitor.analysis.routes.differences import Block, BlockKind, diff, diff_as, difference
from monitor.analysis.routes.wording import as_change
from monitor.routes.places import HopName, as_text
from monitor.web.pages.path.routes.hops import NamedAddress, named
from monitor.web.pages.path.routes.listing import RouteRow

Ttls = tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class AsBlock:
    """AS as text, empty if unknown or absent."""

    kind: BlockKind
    before: str
    after: str
    before_hops: str
    after_hops: str


@dataclass(frozen=True, slots=True)
class HopPair:
    """TTL is None on the shorter route, address None if unknown."""

    kind: BlockKind
    before_ttl: int | None
    before: NamedAddress | None
    after_ttl: int | None
    after: NamedAddress | None


@dataclass(frozen=True, slots=True)
class RouteComparison:
    """The earlier route first; `as_blocks` is empty if no AS is known."""

    before: RouteRow
    after: RouteRow
    sentence: str
    as_blocks: tuple[AsBlock, ...]
    hops: tuple[HopPair, ...]


def compare_routes(rows: Sequence[RouteRow], names: Mapping[str, HopName]) -> RouteComparison | None:
    if len(rows) != 2 or rows[0].path_id != rows[1].path_id:
        return None
    before, after = sorted(rows, key=lambda row: (row.number, row.id))
    as_names = {name.asn: name.as_name for name in names.values() if name.asn is not None}

    def as_of(address: str) -> int | None:
        return names[address].asn if address in names else None

    blocks = diff_as(before.route, after.route, as_of)
    has_as = any(number is not None for block in blocks for number in (*block.before, *block.after))
    return RouteComparison(
        before,
        after,
        _sentence(before, after, blocks, has_as=has_as),
        tuple(_as_block(block, as_names) for block in blocks) if has_as else (),
        tuple(pair for block in diff(before.route, after.route) for pair in _pairs(block, names)),
    )


def _sentence(before: RouteRow, after: RouteRow, blocks: Sequence[Block[int]], *, has_as: bool) -> str:
    part = difference(before.route, after.route)
    if part is None:
        return "No known hop differs."
    last = max(part.last_ttl_before, part.last_ttl_after)
    hops = f"hop {part.first_ttl}" if last <= part.first_ttl else f"hops {part.first_ttl} to {last}"
    change = as_change(blocks)
    where = f": {change}" if change else " within the same AS" if has_as else ""
    return f"Differs at {hops}{where}."


def _as_block(block: Block[int], as_names: Mapping[int, str | None]) -> AsBlock:
    return AsBlock(
        block.kind,
        _as_list(block.before, as_names),
        _as_list(block.after, as_names),
        _hop_range(block.before_ttls),
        _hop_range(block.after_ttls),
    )


def _as_list(numbers: Sequence[int | None], as_names: Mapping[int, str | None]) -> str:
    texts = ("unknown AS" if number is None else as_text(number, as_names.get(number)) for number in numbers)
    return " → ".join(text for text, _ in groupby(texts))


def _hop_range(ttls: Ttls) -> str:
    if ttls is None:
        return ""
    return f"hop {ttls[0]}" if ttls[0] == ttls[1] else f"hops {ttls[0]} to {ttls[1]}"


def _pairs(block: Block[str], names: Mapping[str, HopName]) -> list[HopPair]:
    sides = (_hops(block.before, block.before_ttls), _hops(block.after, block.after_ttls))
    pairs = []
    for left, right in zip_longest(*sides):
        (before_ttl, before), (after_ttl, after) = left or (None, None), right or (None, None)
        pairs.append(
            HopPair(
                block.kind,
                before_ttl,
                None if before is None else named(before, names),
                after_ttl,
                None if after is None else named(after, names),
            )
        )
    return pairs


def _hops(addresses: Sequence[str | None], ttls: Ttls) -> list[tuple[int, str | None]]:
    return [] if ttls is None else list(enumerate(addresses, ttls[0]))

"""Text of route changes, loss onsets and common parts, for pages, tickets and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.analysis import figures
from monitor.analysis.routes.compare import RouteHops
from monitor.analysis.routes.crossings import SILENT, Level, Part
from monitor.analysis.routes.differences import Block, BlockKind, diff_as, difference
from monitor.analysis.routes.effects import ChangeEffect
from monitor.analysis.routes.onset import LossOnset
from monitor.analysis.routes.suspects import Suspect, Suspects

# Begins the statement that traces found no change; before a semicolon it is of both directions and all hops.
UNCHANGED = "route unchanged"

CANNOT_TELL = "cannot tell"
# Of a change of route near the beginning of an incident.
NO_EFFECT = f"no effect of it on RTT or loss shown; where: {CANNOT_TELL}"
_NOW_BY, _NO_LONGER_BY = "now by", "no longer by"
# With a longer time between two traces a change is known only as "at the latest".
_LONG_UNSEEN = timedelta(minutes=2)
# Parts of a suspect that are named; the others are counted.
MOST_NAMES = 4


@dataclass(frozen=True, slots=True)
class AsLabels:
    """The AS of an address and the name of an AS, None where unknown."""

    as_of: Callable[[str], int | None] = lambda address: None
    name_of: Callable[[int], str | None] = lambda number: None

    def text(self, number: int) -> str:
        """`AS 20965 GEANT`."""
        name = self.name_of(number)
        return f"AS {number} {name}" if name else f"AS {number}"

    def of(self, address: str | None) -> str | None:
        number = None if address is None else self.as_of(address)
        return None if number is None else self.text(number)


def hop(ttl: int, route: RouteHops, labels: AsLabels) -> str:
    """A hop with its AS or else its address: hop 7 (AS 20965 GEANT). TTL 0 is the source."""
    if ttl == 0:
        return "the source"
    if route.reached and ttl == len(route.hops):
        return "the destination"
    address = route.hops[ttl - 1] if ttl <= len(route.hops) else None
    label = labels.of(address) or address
    return f"hop {ttl} ({label})" if label else f"hop {ttl}"


def loss_onset(onset: LossOnset | None, forward: RouteHops, reverse: RouteHops | None, labels: AsLabels) -> str:
    """Where loss begins, with its probability if it is not certain."""
    if onset is None:
        return f"where: {CANNOT_TELL}"
    route = reverse if onset.is_of_reverse and reverse is not None else forward
    between = f"between {hop(onset.near_ttl, route, labels)} and {hop(onset.far_ttl, route, labels)}"
    on_reverse = " of the reverse route" if onset.is_of_reverse else ""
    seen = "seen from both ends" if onset.ends == 2 else "seen from one end"
    if onset.is_certain:
        return f"loss begins {between}{on_reverse}, {seen}"
    return f"where: {CANNOT_TELL}; likeliest {between}{on_reverse} ({probability(onset.probability)}), {seen}"


def as_change(blocks: Sequence[Block[int]]) -> str:
    """The changed AS: AS 3356 → AS 174. Empty if none changed."""
    changes = []
    for block in blocks:
        if block.kind is BlockKind.UNCHANGED:
            continue
        before, after = (_numbers(side) for side in (block.before, block.after))
        changes.append(f"{before or 'none'} → {after or 'none'}")
    return "; ".join(changes)


def route_change(
    at: datetime, before: RouteHops, after: RouteHops, labels: AsLabels, effect: ChangeEffect | None = None
) -> str:
    """A route change with its effect: the route changed at 14:29:41 UTC, +60 ms, now by AS 174 instead of AS 3356."""
    parts = [f"the route changed at {at:%H:%M:%S} UTC", *effects(effect), replacement(before, after, labels)]
    return ", ".join(part for part in parts if part)


def later_change(change: str, last_there_at: datetime, at: datetime, *, is_back: bool) -> str:
    """Text of a change no longer in place: …, first seen back on the previous route at 14:52:10 UTC.

    `last_there_at` and `at` are the last trace there and the first since.
    """
    past = change.replace(f", {_NOW_BY} ", ", then by ").replace(f", {_NO_LONGER_BY} ", ", then no longer by ")
    if is_back:
        return f"{past}; first seen back on the previous route at {at:%H:%M:%S} UTC"
    return f"{past}; changed again at {at:%H:%M:%S} UTC{' at the latest' if at - last_there_at > _LONG_UNSEEN else ''}"


def route_unchanged(where: str = f"where: {CANNOT_TELL}", *, has_reverse: bool = True, up_to: int | None = None) -> str:
    """State that the route did not change, for both directions (`has_reverse`) or up to TTL `up_to`, and where else the
    trouble is."""
    if up_to is not None:
        return f"{UNCHANGED} up to hop {up_to}, no reply beyond; {where}"
    return f"{UNCHANGED}{'' if has_reverse else ' in this direction, reverse route unknown'}; {where}"


def effects(effect: ChangeEffect | None) -> list[str]:
    """The effects of a change: +60 ms, loss 0% → 4.2%."""
    if effect is None:
        return []
    parts = []
    if effect.rtt is not None:
        parts.append(f"{'+' if effect.rtt.shift_ms > 0.0 else '−'}{_short_ms(abs(effect.rtt.shift_ms))}")
    if effect.loss is not None:
        ratios = (
            effect.loss.lost_before / effect.loss.sent_before,
            effect.loss.lost_after / effect.loss.sent_after,
        )
        parts.append(f"loss {' → '.join(figures.percent(ratio) for ratio in ratios)}")
    return parts


def common_part(name: str, certain: Suspect, rankings: Suspects, labels: AsLabels) -> str:
    """The common part of bad paths, with its only link or hop, and the next: AS 20965 (link 10.0.0.1 – 10.0.0.2) 0.93,
    next AS 513 CERN 0.04."""
    links = [part for part in certain.parts if part.level is Level.LINK]
    finest = links or [part for part in certain.parts if part.level is Level.HOP]
    detail = f" ({part_name(finest[0], labels)})" if len(finest) == 1 and finest[0].ends[0] not in name else ""
    ranking = rankings.places if certain in rankings.places else rankings.parts
    others = [entry for entry in ranking if entry is not certain and entry.probability >= 0.005]
    following = f", next {suspect(others[0], labels)} {probability(others[0].probability)}" if others else ""
    return f"{name}{detail} {probability(certain.probability)}{following}"


def stretch(near: str, far: str, labels: AsLabels) -> str:
    """Text: between 10.0.0.1 (AS 20965 GEANT) and 10.0.0.2 (AS 513 CERN)."""
    ends = [f"{end} ({label})" if label else end for end in (near, far) for label in [labels.of(end)]]
    return f"between {' and '.join(ends)}"


def suspect(entry: Suspect, labels: AsLabels) -> str:
    """The indistinguishable parts of a suspect, links first."""
    rank = {Level.LINK: 0, Level.HOP: 1, Level.AS: 2, Level.BORDER: 3}
    ordered = sorted(entry.parts, key=lambda part: (rank[part.level], part.ends))
    names = [part_name(part, labels) for part in ordered[:MOST_NAMES]]
    if len(ordered) > MOST_NAMES:
        names.append(f"{len(ordered) - MOST_NAMES} more")
    return " or ".join(names)


def probability(value: float) -> str:
    """Two decimals, never rounded up to 1: 0.93."""
    return f"{min(value, 0.99):.2f}"


def part_name(entry: Part, labels: AsLabels) -> str:
    """AS 20965 GEANT, the border of two AS, hop 10.0.0.1 (AS 20965 GEANT), or link 10.0.0.1 – 10.0.0.2."""
    if entry.level is Level.AS:
        return labels.text(int(entry.ends[0]))
    if entry.level is Level.BORDER:
        return f"the border of {' and '.join(labels.text(int(number)) for number in entry.ends)}"
    if entry.level is Level.HOP:
        label = labels.of(entry.ends[0])
        return f"hop {entry.ends[0]} ({label})" if label else f"hop {entry.ends[0]}"
    near, far = ("silent hops" if end == SILENT else end for end in entry.ends)
    return f"link {near} – {far}"


def replacement(before: RouteHops, after: RouteHops, labels: AsLabels) -> str:
    """The changed AS, or the changed hops within the same AS: now by AS 174 instead of AS 3356."""
    changed = [block for block in diff_as(before, after, labels.as_of) if block.kind is not BlockKind.UNCHANGED]
    old = _joined(block.before for block in changed)
    new = _joined(block.after for block in changed)
    if old and new:
        return f"{_NOW_BY} {new} instead of {old}"
    if old or new:
        return f"{_NOW_BY} {new}" if new else f"{_NO_LONGER_BY} {old}"
    part = difference(before, after)
    if part is None:
        return ""
    last = max(part.last_ttl_before, part.last_ttl_after)
    hops = f"hop {part.first_ttl}" if last <= part.first_ttl else f"hops {part.first_ttl} to {last}"
    numbers = {labels.as_of(address) for route in (before, after) for address in route.hops if address is not None}
    return f"other {hops}" + (", same AS" if numbers - {None} else "")


def _joined(sides: Iterable[Sequence[int | None]]) -> str:
    return ", ".join(dict.fromkeys(number for side in sides for number in [_numbers(side)] if number))


def _numbers(side: Sequence[int | None]) -> str:
    return ", ".join(f"AS {number}" for number in side if number is not None)


def _short_ms(value_ms: float) -> str:
    return f"{value_ms:.0f} ms" if value_ms >= 10.0 else f"{value_ms:.1f} ms"

"""The sentence on the mesh: the first applicable of eight forms (docs/pages.md), and counts of the other paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.alerts.evidence.titles import place_of
from monitor.alerts.incidents.queries import last_ended
from monitor.alerts.models import Incident
from monitor.analysis import figures
from monitor.archive.queries.path_states import not_permitted

# Without an open incident, the last one is named if it ended within this time.
RECENTLY_ENDED = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of watched paths by condition; they add up to `paths`."""

    paths: int
    with_problems: int = 0
    over: int = 0  # in open incidents, and all normal again
    checked: int = 0  # in trouble without an open incident
    own_tests: int = 0  # all newer packets sent during own throughput tests
    overdue: int = 0  # without newer results
    silent: int = 0  # without any results of the last minutes
    not_permitted: int = 0
    awaited: int = 0
    in_maintenance: int = 0
    normal: int = 0


def count_of_paths(number: int) -> str:
    """`1 path`, `1,200 paths`."""
    return f"{figures.count(number)} path{'s' if number != 1 else ''}"


def unknown(tally: Tally, why: str) -> tuple[str, str]:
    """The title and the rest while no path is judged."""
    return f"State unknown: {why}.", rest(tally, {"normal"})


def judged(tally: Tally, incidents: Sequence[Incident], checked: str, now: datetime) -> tuple[str, str]:
    """The title and the rest; `checked` is the clause of the worst path being checked."""
    lasting = [incident for incident in incidents if incident.over_since is None]
    of_all = f" of {count_of_paths(tally.paths)}" if tally.paths > 1 else ""
    if tally.with_problems and lasting:
        verb = "has a problem" if tally.with_problems == 1 else "have problems"
        return f"{_number(tally.with_problems, of_all)} {verb}: {_first(lasting)}.", rest(tally, {"with_problems"})
    if tally.checked:
        verb = "is" if tally.checked == 1 else "are"
        return f"{_number(tally.checked, of_all)} {verb} being checked: {checked}.", rest(tally, {"checked"})
    if incidents:
        return f"No path has a problem now. {_first(incidents)}.", rest(tally)
    ended = _ended(now)
    if tally.not_permitted:
        rule = not_permitted(now).rule
        verb = "is" if tally.not_permitted == 1 else "are"
        refused = f"{verb} not permitted by limits.toml at the source"
        number = _number(tally.not_permitted, of_all)
        title = f"{number} could not be measured." if rule is None else f"{number} {refused}: {rule}."
        return title, f"{rest(tally, {'not_permitted'})} {ended}".strip()
    if tally.overdue + tally.silent:
        late = tally.overdue + tally.silent
        title = f"{_number(late, of_all)} {'has' if late == 1 else 'have'} no newer results."
        return title, f"{rest(tally, {'overdue', 'silent'})} {ended}".strip()
    if tally.awaited:
        verb = "has" if tally.awaited == 1 else "have"
        title = f"Too early to tell: {_number(tally.awaited, of_all)} {verb} too few packets so far."
        return title, f"{rest(tally, {'awaited'})} {ended}".strip()
    if tally.paths == tally.normal:
        title = f"All {count_of_paths(tally.paths)} are normal." if tally.paths > 1 else "The path is normal."
        return title, ended
    return f"No path is known to have a problem: {rest(tally)}", ended


def rest(tally: Tally, but: Sequence[str] | set[str] = ()) -> str:
    """Counts by condition, except those in `but`: `18 normal, 3 without newer results.`"""
    words = {
        "with_problems": "with problems",
        "over": "over, waiting to close",
        "checked": "being checked",
        "normal": "normal",
        "own_tests": "under an own throughput test",
        "overdue": "without newer results",
        "silent": "without any results of the last 10 min",
        "not_permitted": "not permitted",
        "awaited": "with too few packets so far",
        "in_maintenance": "in maintenance",
    }
    parts = [f"{figures.count(getattr(tally, name))} {of}" for name, of in words.items() if name not in but]
    return f"{', '.join(part for part in parts if not part.startswith('0 '))}.".removeprefix(".")


def _number(number: int, of_all: str) -> str:
    return f"{figures.count(number)}{of_all}" if of_all else "The path"


def _first(incidents: Sequence[Incident]) -> str:
    others = len(incidents) - 1
    more = f", and {others} other incident{'s' if others > 1 else ''}" if others else ""
    return f"{incidents[0].title or place_of(incidents[0])}{more}"


def _ended(now: datetime) -> str:
    # Title of the last recently ended incident, without an age, which would change.
    ended = last_ended(now - RECENTLY_ENDED, now)
    return "" if ended is None else f"Last incident: {ended.title}."

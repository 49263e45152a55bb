"""The sentence on the state of the mesh, from its counts of paths, its open incidents and what is being checked.

In: the `PathCounts`, the incidents in their order, the `CheckedPaths`, and the counts of the paths with problems. Out:
the title and the rest of the sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from monitor.alerts.detect.rules.throughput import LEAST_BEFORE
from monitor.alerts.evidence import words
from monitor.alerts.incidents import recovery
from monitor.alerts.incidents.queries import last_ended
from monitor.alerts.models import Incident
from monitor.analysis import figures
from monitor.archive.queries.path_states import PathCounts, not_permitted
from monitor.overview.now.checked_paths import CheckedPaths, count_of_paths
from monitor.overview.now.newest_tests import NewestTests

RECENTLY_ENDED = timedelta(hours=1)
"""Without an open incident, the last one is named if it ended within this time."""
NOT_CLEAR = "not in an incident (too few packets so far to exclude its loss on all of them)"


def unknown(states: PathCounts, incidents: tuple[Incident, ...], since: datetime) -> tuple[str, str]:
    """The title and the rest while the rules are not evaluated."""
    number = states.with_problems
    then = f" {_problems(states, incidents, since, number=number, was=True)}" if incidents else ""
    return f"State unknown: alert rules not evaluated since {since:%Y-%m-%d %H:%M} UTC.{then}", remaining(
        states, "with data"
    )


def judged(
    states: PathCounts,
    checked: CheckedPaths,
    incidents: tuple[Incident, ...],
    counts: tuple[int, int, int],
    is_in_part: bool,
    evaluated_at: datetime | None,
    now: datetime,
) -> tuple[str, str]:
    """The title and the rest of the sentence. `counts` are those of the paths with problems whose incidents go on, that
    reply again, and that are over. With `is_in_part` the loss or the throughput of some paths is not judged
    and not being checked either."""
    normal = "normal as far as judged" if is_in_part else "normal"
    if incidents:
        current = normal if checked.are_unclear_listed else NOT_CLEAR
        going_on, again, over = counts
        back = [f"{figures.count(again)} being checked after an outage"] if again and going_on > 0 else []
        back += [f"{figures.count(over)} with a problem that is over"] if over and going_on + again > 0 else []
        number = next((count for count in counts if count > 0), 0)
        problems = _problems(states, incidents, now, number=number)
        if checked.paths and going_on <= 0:
            rest = remaining(_without(states, checked), current, back)
            return f"{'; '.join(checked.parts())}.", f"{problems} {rest}".strip()
        return problems, remaining(_without(states, checked), current, [*checked.parts(), *back])
    if states.awaited == states.paths:
        return _all_awaited(states.paths, now)
    if evaluated_at is None:
        return "The alert rules have not been evaluated yet.", remaining(states, "with data")
    if checked.not_normal:
        rest = f"{remaining(_without(states, checked), normal)} {_ended(now)}"
        return f"No open incidents; {'; '.join(checked.parts())}.", rest.strip()
    if not states.normal:
        return _none_normal(states), _ended(now)
    if states.normal == states.paths:
        return (
            f"All {count_of_paths(states.paths)} are {normal}." if states.paths > 1 else f"The path is {normal}."
        ), _ended(now)
    rest = f"{remaining(states, '')} {_ended(now)}"
    return f"No problems: {figures.count(states.normal)} of {count_of_paths(states.paths)} are {normal}.", rest.strip()


def _all_awaited(paths: int, now: datetime) -> tuple[str, str]:
    """Of a mesh without any result: its paths wait, or the limits of their sites do not permit to measure them."""
    refused = not_permitted(now)
    if not refused.paths:
        return f"{count_of_paths(paths)} {'is' if paths == 1 else 'are'} waiting for the first results.", ""
    number = min(refused.paths, paths)
    where = "The path is" if paths == 1 else f"{figures.count(number)} of {count_of_paths(paths)} are"
    waiting = f" {figures.count(paths - number)} waiting for first results." if number < paths else ""
    rule = "" if refused.rule is None else f"{refused.rule}."
    return f"{where} not permitted by limits.toml at the source.", f"{rule}{waiting}".strip()


def _problems(
    states: PathCounts, incidents: tuple[Incident, ...], now: datetime, *, number: int, was: bool = False
) -> str:
    """The worst incident, the number of the others, and that of the paths with problems, or with problems that are over
    where all incidents are; without a number where none of these is, since another trouble of theirs is being
    checked."""
    worst = words.brief(incidents[0], now)
    others = len(incidents) - 1
    if others:
        worst += f", and {others} other incident{'s' if others > 1 else ''}"
    if number <= 0:
        return f"Open incident{'s' if others else ''}: {worst}."
    count = f"{figures.count(number)} of {count_of_paths(states.paths)}"
    if not was and recovery.is_back_to_normal(incidents[0]):
        text = over_text(number, count)
        return f"{text[0].upper()}{text[1:]}: {worst}."
    if not was and recovery.replies_again(incidents[0]):
        return f"{count} {'is' if number == 1 else 'are'} being checked after an outage: {worst}."
    verb = "had" if was else "has" if number == 1 else "have"
    return f"{count} {verb} problems{' then' if was else ''}: {worst}."


def over_text(number: int, count: str) -> str:
    """`the problems of 2 of 20 paths are over, waiting to close`: an end is proven, but not that a loss is below its
    threshold again, for which the incident waits."""
    return f"the problem{'s' if number > 1 else ''} of {count} {'are' if number > 1 else 'is'} over, waiting to close"


def _none_normal(states: PathCounts) -> str:
    """Of a mesh without an open incident, and without any path with current data outside maintenance."""
    only = remaining(states, "").removesuffix(".")
    return f"No open incidents, and no path is known to be normal: {only} of {count_of_paths(states.paths)}."


def _without(states: PathCounts, checked: CheckedPaths) -> PathCounts:
    return replace(states, normal=max(0, states.normal - checked.not_normal))


def remaining(states: PathCounts, current: str, before: Sequence[str] = ()) -> str:
    """The paths without problems by state: `18 normal, 3 without data for more than 10 min.`; those with current data
    are left out where `current` is no word. The parts `before` stand first."""
    parts = list(before)
    parts += [f"{figures.count(states.normal)} {current}"] if current and states.normal else []
    if states.without_data and states.without_data_s is not None:
        longer = figures.duration(states.without_data_s)
        parts.append(f"{figures.count(states.without_data)} without data for more than {longer}")
    if states.awaited:
        parts.append(f"{figures.count(states.awaited)} waiting for first results")
    if states.in_maintenance:
        parts.append(f"{figures.count(states.in_maintenance)} in maintenance")
    return f"{', '.join(parts)}." if parts else ""


def _ended(now: datetime) -> str:
    """The incident that ended last, if lately."""
    ended = last_ended(now - RECENTLY_ENDED, now)
    if ended is None or ended.closed_at is None:
        return ""
    ago = figures.duration((now - ended.closed_at).total_seconds())
    return f"Last incident: {words.brief(ended, now)}, resolved {ago} ago."


def too_early(states: PathCounts) -> str:
    """The title while none of the paths with current data has packets enough to call it normal."""
    where = f"all {count_of_paths(states.paths)}" if states.paths > 1 else "the path"
    if states.normal < states.paths:
        where = f"{figures.count(states.normal)} of {count_of_paths(states.paths)}"
    return f"Too early to tell: too few packets so far on {where}."


def further(checked: CheckedPaths, tests: NewestTests, with_few_packets: int) -> str:
    """Losses of lately that ended without an incident, and the paths whose loss or throughput is not judged."""
    few = f"Loss of {count_of_paths(with_few_packets)} not judged yet: too few packets." if with_few_packets else ""
    return " ".join(filter(None, (checked.words_of_ends(), few, _unjudged(tests))))


def _unjudged(tests: NewestTests) -> str:
    """The paths whose throughput no rule can judge yet."""
    if not tests.unjudged:
        return ""
    return f"Throughput of {count_of_paths(len(tests.unjudged))} not judged yet: fewer than {LEAST_BEFORE} tests."

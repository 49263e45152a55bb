"""The summary in plain words: figures go in, one sentence comes out of each rule that has something to say.

Each sentence carries the name of its rule and the figures it rests on. The rules, in the order of the paragraph, are
`RULES`; docs/report.md says what makes each speak. At most `MOST_NAMED` paths are named in one, the others counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from monitor.reports.numbers import Numbers
from monitor.reports.report import Change, Figure, Goal, Measure, PathReport, Report, Sentence, State

MOST_NAMED = 5
MOST_CHANGES = 3
COVERAGE_WORTH_A_MENTION_RATIO = 0.95

Rule = Callable[[Report, Numbers], Sentence | None]


def of(report: Report, numbers: Numbers) -> tuple[Sentence, ...]:
    """The sentences of the summary, in their order."""
    if not report.paths:
        words = "No pings were planned and none were measured in this period."
        return (Sentence("nothing", words, {"paths": 0}),)
    found = (rule(report, numbers) for rule in RULES)
    return tuple(sentence for sentence in found if sentence is not None)


def paths(number: int, numbers: Numbers) -> str:
    return "1 path" if number == 1 else f"{numbers.count(number)} paths"


def listed(names: Sequence[str], numbers: Numbers) -> str:
    """`a → b, c → d and 3 more`."""
    shown = ", ".join(names[:MOST_NAMED])
    more = len(names) - MOST_NAMED
    return f"{shown} and {numbers.count(more)} more" if more > 0 else shown


def _goal(report: Report, numbers: Numbers) -> Sentence | None:
    met, judged = met_of(report.state)
    if not judged:
        return None
    was_met, was_judged = met_of(report.before)
    words = (
        f"{numbers.count(met)} of {paths(judged, numbers)} ({numbers.percent(met / judged)}) had less than 0.1% loss"
    )
    untold = report.state.measured - judged
    if untold:
        words += f" (of {numbers.count(untold)} more it cannot be told: too few packets)"
    if was_judged:
        words += f", against {numbers.percent(was_met / was_judged)} {the_time_before(report)}"
    figures = {
        "goal.met": met,
        "goal.judged": judged,
        "measured": report.state.measured,
        "before.goal.met": was_met,
        "before.goal.judged": was_judged,
    }
    return Sentence("goal", f"{words}.", figures)


def met_of(state: State) -> tuple[int, int]:
    """How many paths met the goal, of how many of which it can be told."""
    met, missed = state.goals.get(Goal.MET, 0), state.goals.get(Goal.MISSED, 0)
    return met, met + missed


def the_time_before(report: Report) -> str:
    return "the week before" if report.period.week is not None else "the time before"


def _worse(report: Report, numbers: Numbers) -> Sentence | None:
    return _changed("worse", report.changes.worse, numbers)


def _better(report: Report, numbers: Numbers) -> Sentence | None:
    return _changed("better", report.changes.better, numbers)


def _changed(rule: str, found: Sequence[Change], numbers: Numbers) -> Sentence | None:
    if not found:
        return None
    told = "; ".join(change_words(one, numbers) for one in found[:MOST_CHANGES])
    more = len(found) - MOST_CHANGES
    ending = f"; and {numbers.count(more)} more" if more > 0 else ""
    words = f"{rule.capitalize()} than the eight weeks before, beyond the noise: {told}{ending}."
    return Sentence(rule, words, {f"{one.path.name} {one.figure}": (one.before, one.now) for one in found})


def change_words(change: Change, numbers: Numbers) -> str:
    """`loss of slac → cern from 0.01% to 0.8%`."""
    before, now = change_figures(change, numbers)
    return f"{change.figure} of {change.path.name} from {before} to {now}"


def change_figures(change: Change, numbers: Numbers) -> tuple[str, str]:
    write = {Figure.LOSS: numbers.percent, Figure.RTT: numbers.milliseconds, Figure.THROUGHPUT: numbers.bit_rate}
    return write[change.figure](change.before), write[change.figure](change.now)


def _steady(report: Report, numbers: Numbers) -> Sentence | None:
    found = report.changes
    if found.worse or found.better or not found.tests:
        return None
    return Sentence("steady", "No path left its own noise of the eight weeks before.", {"changes.tests": found.tests})


def _incidents(report: Report, numbers: Numbers) -> Sentence | None:
    found = report.incidents
    if not found:
        return Sentence("incidents", "There was no incident.", {"incidents": 0})
    longest = max(found, key=lambda one: one.seconds)
    touched = {name for one in found for name in one.paths}
    length = numbers.duration(longest.seconds)
    words = (
        f"One incident on {paths(len(touched), numbers)}, {longest.cause} for {length}."
        if len(found) == 1
        else f"{numbers.count(len(found))} incidents on {paths(len(touched), numbers)}, the longest {longest.cause} "
        f"for {length}."
    )
    return Sentence("incidents", words, {"incidents": len(found), "longest.seconds": longest.seconds})


def _levels(report: Report, numbers: Numbers) -> Sentence | None:
    judged = [path for path in report.paths if path.targets]
    if not judged:
        return None
    missed = [path.name for path in judged if not all(target.is_kept for target in path.targets)]
    if not missed:
        words = f"All {paths(len(judged), numbers)} with a service level kept it."
    else:
        words = (
            f"{numbers.count(len(missed))} of {paths(len(judged), numbers)} missed their service level: "
            f"{listed(missed, numbers)}."
        )
    return Sentence("service levels", words, {"judged": len(judged), "missed": len(missed)})


def _dead(report: Report, numbers: Numbers) -> Sentence | None:
    found = [path.name for path in report.paths if 0 < path.sent == path.lost]
    return _of_paths("all lost", "Every packet was lost on", found, numbers)


def _silent(report: Report, numbers: Numbers) -> Sentence | None:
    found = [path.name for path in report.paths if path.sent == 0]
    return _of_paths("no data", "There is no data of", found, numbers)


def _thin(report: Report, numbers: Numbers) -> Sentence | None:
    found = [path.name for path in report.paths if path.sent and _is_thin(path)]
    return _of_paths("coverage", "Under 95% of the planned bursts were measured on", found, numbers)


def _is_thin(path: PathReport) -> bool:
    planned = path.bursts_planned
    return planned is not None and path.bursts_measured < COVERAGE_WORTH_A_MENTION_RATIO * planned


def _of_paths(rule: str, what: str, names: Sequence[str], numbers: Numbers) -> Sentence | None:
    if not names:
        return None
    words = f"{what} {paths(len(names), numbers)}: {listed(names, numbers)}."
    return Sentence(rule, words, {"paths": tuple(names)})


def _advice(report: Report, numbers: Numbers) -> Sentence | None:
    if not report.advice:
        return None
    best = report.advice[0]
    words = f"What would gain most throughput: {best.measure}{_where(best.measure)}{best.site}"
    words += f" ({paths(len(best.paths), numbers)}, about {numbers.times(best.times)} times)."
    return Sentence("advice", words, {"paths": best.paths, "times": best.times, "gain_bps": best.gain_bps})


def _where(measure: Measure) -> str:
    return " to " if measure is Measure.LOSS else " at "


def advice_words(report: Report, numbers: Numbers) -> list[str]:
    """Each advice: `raise the receive buffer at fnal, to 4.2 MB at least: 4 paths, about 2.5 times (…)`."""
    found = []
    for one in report.advice:
        needed = ""
        if one.window_bytes is not None:
            needed = f", to {numbers.size(one.window_bytes)} at least"
        elif one.loss_ratio is not None:
            needed = f", to {numbers.percent(one.loss_ratio)} at most"
        found.append(
            f"{one.measure.capitalize()}{_where(one.measure)}{one.site}{needed}: {paths(len(one.paths), numbers)}, "
            f"about {numbers.times(one.times)} times ({listed(one.paths, numbers)})."
        )
    return found


RULES: tuple[Rule, ...] = (
    _goal,
    _worse,
    _better,
    _steady,
    _dead,
    _silent,
    _incidents,
    _levels,
    _advice,
    _thin,
)

"""The summary of a report in sentences, at most a sentence for each of `RULES`, in order; see docs/report.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from monitor.analysis.directions import LostDirection, OneWayLosses
from monitor.analysis.promised_service import ServiceVerdict
from monitor.archive.upkeep.freshness import EvaluationPause
from monitor.reports.contents.report import (
    ComparedFigure,
    FigureChange,
    Improvement,
    PathReport,
    Report,
    Sentence,
)
from monitor.reports.contents.times import pause_words
from monitor.reports.numbers import Numbers

MOST_NAMED = 5
MOST_CHANGES = 3
COVERAGE_WORTH_A_MENTION_RATIO = 0.95

NOT_KEPT = ServiceVerdict.NOT_KEPT

Rule = Callable[[Report, Numbers], Sentence | None]


def summary_sentences(report: Report, numbers: Numbers) -> tuple[Sentence, ...]:
    candidates = (rule(report, numbers) for rule in RULES)
    return tuple(sentence for sentence in candidates if sentence is not None)


def paths(number: int, numbers: Numbers) -> str:
    return "1 path" if number == 1 else f"{numbers.count(number)} paths"


def listed(names: Sequence[str], numbers: Numbers) -> str:
    """As in `a → b, c → d and 3 more`."""
    shown = ", ".join(names[:MOST_NAMED])
    more = len(names) - MOST_NAMED
    return f"{shown} and {numbers.count(more)} more" if more > 0 else shown


def _empty(report: Report, numbers: Numbers) -> Sentence | None:
    if not report.is_empty:
        return None
    words = "Nothing was measured in this period"
    if not report.paths and not report.throughput_only:
        words += ", and nothing was planned"
    if report.data_since is None:
        words += "; there are no data yet"
    else:
        words += f"; the first data are of {report.data_since.astimezone(report.period.zone):%Y-%m-%d %H:%M}"
    return Sentence("nothing", f"{words}.", {"measured": 0, "data_since": report.data_since})


def the_time_before(report: Report) -> str:
    return "the week before" if report.period.week is not None else "the period before"


def _worse(report: Report, numbers: Numbers) -> Sentence | None:
    return _changed("worse", report.changes.worse, numbers)


def _better(report: Report, numbers: Numbers) -> Sentence | None:
    return _changed("better", report.changes.better, numbers)


def _changed(rule: str, changes: Sequence[FigureChange], numbers: Numbers) -> Sentence | None:
    if not changes:
        return None
    told = "; ".join(change_words(change, numbers) for change in changes[:MOST_CHANGES])
    more = len(changes) - MOST_CHANGES
    ending = f"; and {numbers.count(more)} more" if more > 0 else ""
    words = f"Significantly {rule} than the eight weeks before: {told}{ending}."
    return Sentence(
        rule, words, {f"{change.path.name} {change.figure}": (change.before, change.now) for change in changes}
    )


def change_words(change: FigureChange, numbers: Numbers) -> str:
    """`loss of slac → cern from 0.01% to 0.8%`."""
    before, now = change_figures(change, numbers)
    return f"{change.figure} of {change.path.name} from {before} to {now}"


def change_figures(change: FigureChange, numbers: Numbers) -> tuple[str, str]:
    write = {
        ComparedFigure.LOSS: numbers.percent,
        ComparedFigure.RTT: numbers.milliseconds,
        ComparedFigure.THROUGHPUT: numbers.bit_rate,
    }
    return write[change.figure](change.before), write[change.figure](change.now)


def _steady(report: Report, numbers: Numbers) -> Sentence | None:
    changes = report.changes
    if changes.worse or changes.better or not changes.tests:
        return None
    return Sentence(
        "steady", "No significant changes against the eight weeks before.", {"changes.tests": changes.tests}
    )


def _pauses(report: Report, numbers: Numbers) -> Sentence | None:
    if not report.pauses:
        return None
    longest = max(report.pauses, key=lambda pause: _pause_s(pause, report))
    words = pause_words(longest, report, numbers)
    others = len(report.pauses) - 1
    if others:
        words += f" {numbers.count(others)} shorter {'pause' if others == 1 else 'pauses'} besides."
    words += " Problems of that time may be missing from the incidents."
    total_s = sum(_pause_s(pause, report) for pause in report.pauses)
    return Sentence("not evaluated", words, {"pauses": len(report.pauses), "seconds": total_s})


def _pause_s(pause: EvaluationPause, report: Report) -> float:
    until = report.until if pause.until is None else min(pause.until, report.until)
    return (until - max(pause.since, report.period.since)).total_seconds()


def _covers_period(pause: EvaluationPause, report: Report) -> bool:
    return pause.since <= report.period.since and (pause.until is None or pause.until >= report.until)


def _incidents(report: Report, numbers: Numbers) -> Sentence | None:
    incidents = report.incidents
    if not incidents:
        if report.is_empty or any(_covers_period(pause, report) for pause in report.pauses):
            return None
        words = "No incidents at other times." if report.pauses else "No incidents."
        return Sentence("incidents", words, {"incidents": 0})
    worst = max(incidents, key=lambda incident: (incident.damage, incident.seconds))
    touched = paths(len({name for incident in incidents for name in incident.paths}), numbers)
    words = (
        f"One incident on {touched}: {worst.title}."
        if len(incidents) == 1
        else f"{numbers.count(len(incidents))} incidents on {touched}, the worst: {worst.title}."
    )
    return Sentence("incidents", words, {"incidents": len(incidents), "worst.seconds": worst.seconds})


def _one_way(report: Report, numbers: Numbers) -> Sentence | None:
    """Directions that lose alone, each once though both ends measure it."""
    losses: dict[str, tuple[OneWayLosses, OneWayLosses]] = {}
    for path in report.paths:
        if path.directions is None or path.lost_direction not in (LostDirection.FORWARD, LostDirection.REVERSE):
            continue
        there, back = path.directions.forward, path.directions.reverse
        is_forward = path.lost_direction is LostDirection.FORWARD
        name, ways = (path.name, (there, back)) if is_forward else (path.reverse_name, (back, there))
        if is_forward or name not in losses:
            losses[name] = ways
    if not losses:
        return None
    ordered = sorted(losses, key=lambda name: (-(losses[name][0].ratio or 0.0), name))
    told = [
        f"{name} {numbers.loss(lossy.lost, lossy.sent)} (reverse {numbers.loss(other.lost, other.sent)})"
        for name in ordered
        for lossy, other in (losses[name],)
    ]
    figures = {name: losses[name][0].ratio for name in ordered}
    return Sentence("one way", f"Loss in one direction only, by STAMP: {listed(told, numbers)}.", figures)


def _routes(report: Report, numbers: Numbers) -> Sentence | None:
    routes = report.routes
    if routes is None or not (routes.changes or routes.steps):
        return None
    words = "No route changes"
    if routes.changes:
        words = f"{numbers.count(routes.changes)} route {'change' if routes.changes == 1 else 'changes'}"
        words += f", {numbers.count(len(routes.with_effect))} with an effect on RTT or loss"
    if routes.steps:
        words += f"; {numbers.count(routes.explained)} of {numbers.count(routes.steps)} RTT "
        words += f"{'step' if routes.steps == 1 else 'steps'} explained by a route change"
    figures = {
        "routes.changes": routes.changes,
        "routes.with_effect": len(routes.with_effect),
        "routes.steps": routes.steps,
        "routes.explained": routes.explained,
    }
    return Sentence("routes", f"{words}.", figures)


def _congestion(report: Report, numbers: Numbers) -> Sentence | None:
    if not report.congestion:
        return None
    named = "; ".join(f"{path.path} {numbers.figures_of(path.words)}" for path in report.congestion[:MOST_CHANGES])
    more = len(report.congestion) - MOST_CHANGES
    words = f"In the last 14 days, {named}" + (f"; and {paths(more, numbers)} more" if more > 0 else "")
    return Sentence("congestion", f"{words}.", {path.path: path.rise_ms for path in report.congestion})


def _levels(report: Report, numbers: Numbers) -> Sentence | None:
    judged = [path for path in report.paths if path.targets]
    if not judged:
        return None
    missed = [path.name for path in judged if path.is_below_level]
    if not missed:
        words = (
            "The only path with a service level met it."
            if len(judged) == 1
            else f"All {paths(len(judged), numbers)} with a service level met it."
        )
    else:
        words = (
            f"{numbers.count(len(missed))} of {paths(len(judged), numbers)} missed the service level: "
            f"{listed(missed, numbers)}."
        )
    return Sentence("service levels", words, {"judged": len(judged), "missed": len(missed)})


def _promised(report: Report, numbers: Numbers) -> Sentence | None:
    judged = [path for path in (*report.paths, *report.throughput_only) if path.promised is not None]
    if not judged:
        return None
    missed = [path.name for path in judged if path.promised and path.promised.finding.verdict is NOT_KEPT]
    kept = sum(1 for path in judged if path.promised and path.promised.finding.verdict is ServiceVerdict.KEPT)
    if missed:
        words = (
            f"Not the service you pay for on {numbers.count(len(missed))} of {paths(len(judged), numbers)}: "
            f"{listed(missed, numbers)}."
        )
    else:
        words = f"The promised service was kept on {numbers.count(kept)} of {paths(len(judged), numbers)}"
        words += "." if kept == len(judged) else "; too few tests to tell on the others."
    return Sentence("promised service", words, {"judged": len(judged), "kept": kept, "missed": len(missed)})


def _dead(report: Report, numbers: Numbers) -> Sentence | None:
    names = [path.name for path in report.paths if 0 < path.sent == path.lost]
    return _path_sentence("all lost", "100% loss on", names, numbers)


def _silent(report: Report, numbers: Numbers) -> Sentence | None:
    names = [path.name for path in report.paths if path.sent == 0]
    return _path_sentence("no data", "No data for", names, numbers)


def _thin(report: Report, numbers: Numbers) -> Sentence | None:
    names = [path.name for path in report.paths if path.sent and _is_thin(path)]
    return _path_sentence("coverage", "Under 95% of the planned bursts were measured on", names, numbers)


def _is_thin(path: PathReport) -> bool:
    planned = path.bursts_planned
    return planned is not None and path.bursts_measured < COVERAGE_WORTH_A_MENTION_RATIO * planned


def _path_sentence(rule: str, what: str, names: Sequence[str], numbers: Numbers) -> Sentence | None:
    if not names:
        return None
    words = f"{what} {paths(len(names), numbers)}: {listed(names, numbers)}."
    return Sentence(rule, words, {"paths": tuple(names)})


def _full_links(report: Report, numbers: Numbers) -> Sentence | None:
    filling = [
        (path, use)
        for path in (*report.paths, *report.throughput_only)
        for use in path.links
        if use.forecast.fills_within_quarter
    ]
    if not filling:
        return None
    filling.sort(key=lambda pair: (pair[1].forecast.weeks or 0, pair[0].name))
    names = [f"{path.name} ({use.name}: {numbers.figures_of(use.statement)})" for path, use in filling]
    words = f"Links that are full within a quarter: {listed(names, numbers)}"
    return Sentence("full links", words, {"links": len(filling), "first_weeks": filling[0][1].forecast.weeks or 0})


def _advice(report: Report, numbers: Numbers) -> Sentence | None:
    if not report.advice:
        return None
    best = report.advice[0]
    words = f"Largest possible throughput gain: {best.measure}{_where(best.measure)}{best.site}"
    words += f" ({paths(len(best.paths), numbers)}, about {numbers.times(best.times)} times)."
    return Sentence("advice", words, {"paths": best.paths, "times": best.times, "gain_bps": best.gain_bps})


def _where(measure: Improvement) -> str:
    return " toward " if measure is Improvement.LOSS else " at "


def advice_words(report: Report, numbers: Numbers) -> list[str]:
    """Each advice: `raise the receive buffer at fnal to at least 4.2 MB: 4 paths, about 2.5 times (…)`."""
    lines = []
    for advice in report.advice:
        needed = ""
        if advice.window_bytes is not None:
            needed = f" to at least {numbers.size(advice.window_bytes)}"
        elif advice.loss_ratio is not None:
            needed = f" to at most {numbers.percent(advice.loss_ratio)}"
        lines.append(
            f"{advice.measure.capitalize()}{_where(advice.measure)}{advice.site}{needed}: "
            f"{paths(len(advice.paths), numbers)}, about {numbers.times(advice.times)} times "
            f"({listed(advice.paths, numbers)})."
        )
    return lines


RULES: tuple[Rule, ...] = (
    _empty,
    _worse,
    _better,
    _steady,
    _dead,
    _silent,
    _pauses,
    _incidents,
    _one_way,
    _routes,
    _congestion,
    _levels,
    _promised,
    _full_links,
    _advice,
    _thin,
)

"""A report as text, section by section, for page, mail and PDF; `cells` words the paths' figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from monitor.alerts.evidence.words import link
from monitor.archive.outcomes import outcome_words
from monitor.archive.queries.throughput.under_load import LatencyUnderLoad
from monitor.reports.contents.changes import FALSE_SHARE
from monitor.reports.contents.collect import SPARKLINE_DAYS
from monitor.reports.contents.report import (
    FigureChange,
    IncidentReport,
    PathReport,
    Report,
    Sentence,
    ServiceTarget,
    TargetResult,
)
from monitor.reports.contents.sentences import advice_words, change_figures, the_time_before
from monitor.reports.contents.sentences import paths as number_of_paths
from monitor.reports.contents.times import pause_words, short_moment
from monitor.reports.formats.cells import Row, TextCell, measured, row, sign_words
from monitor.reports.formats.sections import (
    aggregate_lines,
    change_lines,
    direction_lines,
    directions_note,
    promised_lines,
    response_lines,
    routes_note,
)
from monitor.reports.numbers import Numbers

MOST_EXTREMES = 5
MOST_UNDER_LOAD = 10
# Forecasts or estimates below which their score says nothing.
LEAST_SCORED = 5
LEAST_RIGHT_RATIO = 0.5
# The cells of a row of a small table.
Line = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Event:
    title: str
    link: str
    lasted: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All text of a report. Tables are rows of cells; an empty table is not shown."""

    numbers: Numbers
    title: str
    name: str
    when: str
    notices: tuple[str, ...]
    written: str
    sentences: tuple[Sentence, ...]
    state: tuple[Line, ...]
    state_heads: Line
    changes: tuple[Line, ...]
    changes_note: str
    worst: tuple[Line, ...]
    best: tuple[Line, ...]
    levels: tuple[Line, ...]
    budgets: tuple[Line, ...]
    promised: tuple[Line, ...]
    pauses: Line
    incidents: tuple[Event, ...]
    no_incidents: str
    directions: tuple[Line, ...]
    directions_note: str
    routes: tuple[Line, ...]
    routes_note: str
    advice: tuple[str, ...]
    verdicts: tuple[Line, ...]
    scores: tuple[str, ...]
    is_tested: bool
    under_load: tuple[Line, ...]
    responses: tuple[Line, ...]
    aggregates: tuple[Line, ...]
    coverage: tuple[Line, ...]
    rows: tuple[Row, ...]
    throughput_only: tuple[tuple[str, TextCell], ...]
    signs: str
    zone: str
    sizes: str
    handshakes: tuple[str, ...]
    sparkline_days: int = SPARKLINE_DAYS

    @property
    def paragraph(self) -> str:
        return " ".join(sentence.text for sentence in self.sentences)


def view_of(report: Report, numbers: Numbers) -> View:
    worst, best = _extremes(report.paths, numbers)
    return View(
        numbers=numbers,
        title=report.title,
        name=_name(report),
        when=_period_text(report),
        notices=_notices(report),
        written=_moment(report.written_at, report.period.zone),
        sentences=report.sentences,
        state=_state(report, numbers),
        state_heads=(
            "figure",
            "this period",
            the_time_before(report),
            f"a year before ({report.period.year_before.words})",
        ),
        changes=tuple(_change(change, numbers) for change in (*report.changes.worse, *report.changes.better)),
        changes_note=_changes_note(report, numbers),
        worst=worst,
        best=best,
        levels=_levels(report, numbers),
        budgets=_budgets(report, numbers),
        promised=promised_lines(report, numbers),
        pauses=tuple(pause_words(pause, report, numbers) for pause in report.pauses),
        incidents=tuple(_event(incident, report, numbers) for incident in report.incidents),
        no_incidents=_no_incidents(report),
        directions=direction_lines(report, numbers),
        directions_note=directions_note(report, numbers),
        routes=change_lines(report, numbers),
        routes_note=routes_note(report, numbers),
        advice=tuple(advice_words(report, numbers)),
        verdicts=_verdicts(report, numbers),
        scores=_scores(report, numbers),
        is_tested=any(path.throughput_bps for path in (*report.paths, *report.throughput_only)),
        under_load=_under_load(report, numbers),
        responses=response_lines(report, numbers),
        aggregates=aggregate_lines(report, numbers),
        coverage=_coverage(report, numbers),
        rows=tuple(row(path, report, numbers) for path in report.paths),
        throughput_only=tuple((path.name, measured(path, numbers)) for path in report.throughput_only),
        signs=sign_words(report),
        zone=report.period.zone.key,
        sizes=" and ".join(numbers.count(size) for size in report.packet_sizes),
        handshakes=tuple(
            f"{path.name} ({path.measured_by})" for path in report.paths if path.measured_by not in (None, "ping")
        ),
    )


def _name(report: Report) -> str:
    return report.period.words if report.period.week is None else f"week {report.period.week}"


def _period_text(report: Report) -> str:
    zone = report.period.zone
    return (
        f"{report.period.since.astimezone(zone):%A %-d %B %Y %H:%M} to "
        f"{report.until.astimezone(zone):%A %-d %B %Y %H:%M}, {zone.key}"
    )


def _notices(report: Report) -> tuple[str, ...]:
    notices = []
    if not report.is_over:
        notices.append(f"The {_kind(report)} is not over yet: figures are preliminary.")
    if report.lacks_since is not None:
        at = short_moment(report.lacks_since, report)
        notices.append(f"Figures are as of {at}: later results wait for their summary.")
    if report.period.hours != 24 * report.period.days:
        notices.append(f"The clocks changed: the {_kind(report)} has {report.period.hours} hours.")
    families = {path.family for path in report.paths}
    if len(families) == 1:
        notices.append(f"All paths are IPv{families.pop()}.")
    return tuple(notices)


def _kind(report: Report) -> str:
    return "week" if report.period.week is not None else "period"


def _moment(at: datetime, zone: ZoneInfo) -> str:
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M} {zone.key}"


def _state(report: Report, numbers: Numbers) -> tuple[Line, ...]:
    states = (report.state, report.before, report.year_before)
    return (
        ("paths measured", *(f"{numbers.count(state.measured)} of {numbers.count(state.paths)}" for state in states)),
        ("loss of all packets", *(numbers.loss(state.lost, state.sent) for state in states)),
        ("RTT, median of paths", *(numbers.milliseconds(state.rtt_median_ms) for state in states)),
        ("IPDV, median of paths", *(numbers.milliseconds(state.ipdv_median_ms) for state in states)),
        ("availability", *(numbers.percent(state.available_ratio) for state in states)),
        ("bursts without loss", *(numbers.percent(state.zero_loss_ratio) for state in states)),
        ("throughput, median of paths", *(numbers.bit_rate(state.throughput_median_bps) for state in states)),
    )


def _change(change: FigureChange, numbers: Numbers) -> Line:
    before, now = change_figures(change, numbers)
    return (
        "worse" if change.is_worse else "better",
        change.path.name,
        str(change.figure),
        before,
        now,
        numbers.chance(change.chance),
        numbers.chance(change.adjusted),
    )


def _changes_note(report: Report, numbers: Numbers) -> str:
    changes = report.changes
    if not changes.tests:
        return (
            "No path was tested for changes: that needs 3 whole days of data in the period and 14 in the eight weeks "
            "before it."
        )
    skipped = f"; too few days on {number_of_paths(changes.not_tested, numbers)}" if changes.not_tested else ""
    return (
        f"{numbers.count(changes.tests)} tests for changes, of the days against those of the eight weeks before"
        f"{skipped}. p is the probability of such a change by noise alone; changes with p up to "
        f"{numbers.percent(FALSE_SHARE)}, corrected for the number of tests (Benjamini–Hochberg), are listed."
    )


def _extremes(paths: Sequence[PathReport], numbers: Numbers) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    """The worst and best paths by loss, then RTT; paths without data are left out."""
    judged = [path for path in paths if path.summary is not None and path.sent]
    judged.sort(key=_badness)
    worst = [path for path in reversed(judged) if path.lost][:MOST_EXTREMES]
    best = [path for path in judged if path not in worst][:MOST_EXTREMES]
    return tuple(_extreme(path, numbers) for path in worst), tuple(_extreme(path, numbers) for path in best)


def _badness(path: PathReport) -> tuple[float, float]:
    rtt_ms = None if path.summary is None else path.summary.rtt_median_ms
    return path.lost / path.sent, float("inf") if rtt_ms is None else rtt_ms


def _extreme(path: PathReport, numbers: Numbers) -> Line:
    rtt_ms = None if path.summary is None else path.summary.rtt_median_ms
    rtt = "no reply" if rtt_ms is None else numbers.milliseconds(rtt_ms)
    return path.name, numbers.loss(path.lost, path.sent), rtt


def _levels(report: Report, numbers: Numbers) -> tuple[Line, ...]:
    counts: Counter[tuple[ServiceTarget, bool]] = Counter(
        (target.target, target.is_kept) for path in report.paths for target in path.targets
    )
    lines = []
    for target in ServiceTarget:
        kept, missed = counts[target, True], counts[target, False]
        if kept or missed:
            share = numbers.percent(kept / (kept + missed))
            lines.append((str(target), f"{numbers.count(kept)} of {numbers.count(kept + missed)} paths", share))
    return tuple(lines)


def _budgets(report: Report, numbers: Numbers) -> tuple[Line, ...]:
    missed = [(path, target) for path in report.paths for target in path.targets if not target.is_kept]
    missed.sort(key=lambda pair: -pair[1].budget_used)
    return tuple(
        (
            path.name,
            str(target.target),
            *_target_words(target, numbers),
            numbers.percent(target.budget_used)
            if target.budget_used < 1
            else f"{numbers.count(round(100 * target.budget_used))}%",
        )
        for path, target in missed
    )


def _target_words(target: TargetResult, numbers: Numbers) -> Line:
    actual = numbers.percent(target.actual)
    if target.target is ServiceTarget.LOSS:
        return f"at most {numbers.percent(target.limit)}", actual
    if target.target is ServiceTarget.AVAILABILITY:
        return f"at least {numbers.percent(target.limit)}", actual
    share = numbers.percent(target.kept_ratio)
    if target.target is ServiceTarget.RTT:
        return f"at most {numbers.milliseconds(target.limit)} in {share} of the hours", f"in {actual}"
    return f"at least {numbers.bit_rate(target.limit)} in {share} of the tests", f"in {actual}"


def _event(incident: IncidentReport, report: Report, numbers: Numbers) -> Event:
    length = numbers.duration(incident.seconds)
    opened = short_moment(incident.opened_at, report)
    if incident.closed_at is None:
        lasted = f"Since {opened}, still open after {length}"
    else:
        lasted = f"{opened} to {short_moment(incident.closed_at, report)} ({length})"
    title = incident.title[:1].upper() + incident.title[1:]
    return Event(title, link(incident.incident_id), lasted, incident.paths)


def _no_incidents(report: Report) -> str:
    """The summary's sentence on incidents; empty if the rules were never evaluated."""
    said = (sentence.text for sentence in report.sentences if sentence.rule == "incidents")
    return next(said, "" if report.pauses else "No incidents.")


def _verdicts(report: Report, numbers: Numbers) -> tuple[Line, ...]:
    """The verdicts on bottlenecks: their number of paths, and the sentence of an example."""
    paths = (*report.paths, *report.throughput_only)
    told = [(path, path.verdict) for path in paths if path.verdict is not None]
    counts = Counter(verdict.verdict for _, verdict in told)
    lines = []
    for name, number in counts.most_common():
        path, verdict = next((path, candidate) for path, candidate in told if candidate.verdict == name)
        lines.append((name, numbers.count(number), f"{path.name}: {numbers.figures_of(verdict.sentence)}"))
    return tuple(lines)


def _scores(report: Report, numbers: Numbers) -> tuple[str, ...]:
    """State how often forecasts and models were right; nothing for few figures or mostly wrong models."""
    made = report.forecasts
    sentences = []
    if made.tests >= LEAST_SCORED:
        sentences.append(
            f"Forecasts from the earlier tests of each path: {numbers.count(made.within_two)} of "
            f"{numbers.count(made.tests)} tests were within a factor of two, {numbers.count(made.covered)} in the 80% "
            "interval."
        )
    for score in report.scores:
        if score.figures >= LEAST_SCORED and score.within_two >= LEAST_RIGHT_RATIO * score.figures:
            sentences.append(
                f"Estimates from loss, RTT and capacity alone ({score.model}): {numbers.count(score.within_two)} of "
                f"{numbers.count(score.figures)} paths were within a factor of two of their tests."
            )
    return tuple(sentences)


def _under_load(report: Report, numbers: Numbers) -> tuple[Line, ...]:
    """RTT and loss under load beside idle; worst first."""
    increases = []
    for path in report.paths:
        loaded, idle_ms = path.under_load, None if path.summary is None else path.summary.rtt_median_ms
        if loaded is not None and idle_ms is not None:
            if loaded.rtt_median_ms is None or loaded.rtt_p95_ms is None:
                increases.append((float("inf"), path.name, idle_ms, loaded))
            elif loaded.rtt_median_ms > idle_ms:
                increases.append((loaded.rtt_p95_ms - idle_ms, path.name, idle_ms, loaded))
    increases.sort(key=lambda increase: (-increase[0], increase[1]))
    return tuple(
        (name, numbers.milliseconds(idle_ms), *_loaded_cells(loaded, numbers))
        for _, name, idle_ms, loaded in increases[:MOST_UNDER_LOAD]
    )


def _loaded_cells(loaded: LatencyUnderLoad, numbers: Numbers) -> Line:
    rtts_ms = (loaded.rtt_median_ms, loaded.rtt_p95_ms)
    return (
        *("no reply" if rtt_ms is None else numbers.milliseconds(rtt_ms) for rtt_ms in rtts_ms),
        f"{numbers.loss(loaded.lost, loaded.sent)} of {numbers.count(loaded.sent)} packets",
    )


def _coverage(report: Report, numbers: Numbers) -> tuple[Line, ...]:
    planned: Counter[str] = Counter()
    for line in report.coverage:
        planned[line.test] += line.count
    return tuple(
        (
            line.test,
            outcome_words(line.outcome, line.reason),
            numbers.count(line.count),
            numbers.percent(line.count / planned[line.test]),
        )
        for line in report.coverage
    )

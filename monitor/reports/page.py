"""A weekly report as one HTML file: the figures of `weekly.WeeklyReport` in words, and the template around them.

Out: a page that needs nothing else, neither styles nor scripts nor images from elsewhere. How figures are worded and
what counts as worth a mention is decided here; the figures themselves are not (`monitor.reports.weekly`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

from django.template.loader import render_to_string

from monitor.alerts.models import Incident
from monitor.analysis import figures
from monitor.analysis.loss import LossBand, loss_band, loss_bound_ratio
from monitor.reports.weekly import PathWeek, SizeWeek, WeeklyReport

LOSS_WORTH_A_MENTION_RATIO = 0.01
COVERAGE_WORTH_A_MENTION_RATIO = 0.95
MOST_MENTIONS = 5
LEAST_CHANGE = 0.001
"""Changes below this, in percentage points or ms, are not told as changes."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure in words, what it is compared with or comes from, and how it is marked: by a word and by its colour."""

    value: str
    note: str = ""
    mark: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    note: str
    loss: Cell
    rtt: Cell
    estimate: Cell
    measured: Cell
    coverage: Cell


@dataclass(frozen=True, slots=True)
class Table:
    packet_bytes: int
    loss: Cell
    coverage: Cell
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """An incident in words."""

    cause: str
    rule: str
    lasted: str
    summary: str
    paths: tuple[str, ...]


def render(report: WeeklyReport) -> str:
    """The report as a whole HTML page."""
    context = {
        "report": report,
        "until": report.week.until if report.is_over else report.written_at,
        "mentions": mentions(report),
        "tables": [_table(size, report) for size in report.sizes],
        "throughput_only": [(path.name, _measured(path)) for path in report.throughput_only],
        "incidents": [_event(incident, report) for incident in report.incidents],
    }
    return render_to_string("reports/weekly.html", context)


def mentions(report: WeeklyReport) -> list[str]:
    """What matters in the week, one sentence each, from the table of the largest packets and the incidents."""
    if not report.sizes:
        return ["No pings were planned and none were measured in this week."]
    paths = report.sizes[0].paths
    silent = [path for path in paths if path.sent == 0]
    dead = [path for path in paths if 0 < path.sent == path.lost]
    lossy = [path for path in paths if _is_lossy(path)]
    thin = [path for path in paths if path.sent > 0 and _is_thin(path)]
    return [
        sentence
        for sentence in (
            _incident_sentence(len(report.incidents)),
            _list_of("no data", silent, ""),
            _list_of("every packet lost", dead, ""),
            _list_of("loss of 1% or more", sorted(lossy, key=_loss_ratio, reverse=True), "loss"),
            _list_of("under 95% of the planned bursts measured", thin, "coverage"),
        )
        if sentence
    ]


def _is_lossy(path: PathWeek) -> bool:
    return LOSS_WORTH_A_MENTION_RATIO * path.sent <= path.lost < path.sent


def _is_thin(path: PathWeek) -> bool:
    planned = path.bursts_planned
    return planned is not None and path.bursts_measured < COVERAGE_WORTH_A_MENTION_RATIO * planned


def _loss_ratio(path: PathWeek) -> float:
    return path.lost / path.sent


def _incident_sentence(number: int) -> str:
    return {0: "No incidents.", 1: "One incident."}.get(number, f"{number} incidents.")


def _list_of(what: str, paths: list[PathWeek], figure: str) -> str:
    """`loss of 1% or more: 7 paths: a → b (2.1%), … and 2 more.`; empty without paths."""
    if not paths:
        return ""
    named = []
    for path in paths[:MOST_MENTIONS]:
        added = {"loss": figures.loss(path.lost, path.sent), "coverage": _share_measured(path)}.get(figure)
        named.append(path.name if added is None else f"{path.name} ({added})")
    more = f" and {len(paths) - MOST_MENTIONS} more" if len(paths) > MOST_MENTIONS else ""
    return f"{what[0].upper()}{what[1:]} on {_paths(len(paths))}: {', '.join(named)}{more}."


def _paths(number: int) -> str:
    return "1 path" if number == 1 else f"{figures.count(number)} paths"


def _table(size: SizeWeek, report: WeeklyReport) -> Table:
    return Table(
        packet_bytes=size.packet_bytes,
        loss=Cell(
            figures.loss(size.lost, size.sent), f"the week before {figures.loss(size.lost_before, size.sent_before)}"
        ),
        coverage=_coverage(size.bursts_measured_of_planned, size.bursts_planned),
        rows=tuple(_row(path, report) for path in size.paths),
    )


def _row(path: PathWeek, report: WeeklyReport) -> Row:
    return Row(
        name=path.name,
        note="" if path.retired_at is None else f"retired {path.retired_at:%Y-%m-%d}",
        loss=_loss(path, report),
        rtt=_rtt(path),
        estimate=_estimate(path),
        measured=_measured(path),
        coverage=_coverage(path.bursts_measured, path.bursts_planned),
    )


def _loss(path: PathWeek, report: WeeklyReport) -> Cell:
    if path.sent == 0:
        return Cell(figures.NO_DATA, mark="no data", tone="gap")
    value = figures.loss(path.lost, path.sent)
    mark, tone = _rating(path)
    return Cell(value, f"{_counts(path)}; {_loss_before(path, report)}", mark, tone)


def _rating(path: PathWeek) -> tuple[str, str]:
    """The band's word and its tone. With nothing lost the bound must lie in the best band, else there is none."""
    if path.lost == path.sent:
        return "all lost", "bad"
    if path.lost > 0:
        band = loss_band(path.lost / path.sent)
        return str(band), str(band).replace(" ", "-")
    bound = loss_bound_ratio(path.sent, path.sent)
    return ("excellent", "excellent") if loss_band(bound) is LossBand.EXCELLENT else ("none lost", "unrated")


def _counts(path: PathWeek) -> str:
    return f"{figures.count(path.lost)} of {figures.count(path.sent)}"


def _loss_before(path: PathWeek, report: WeeklyReport) -> str:
    before = path.before
    if before is None or before.sent == 0:
        return _nothing_before(path, report)
    was = figures.loss(before.lost, before.sent)
    change = 100.0 * (path.lost / path.sent - before.lost / before.sent)
    if path.lost == 0 or before.lost == 0 or abs(change) < LEAST_CHANGE:
        return f"was {was}"
    return f"{_signed(change)} points (was {was})"


def _nothing_before(path: PathWeek, report: WeeklyReport) -> str:
    is_new = path.began_at is not None and path.began_at >= report.week.since
    return "new this week" if is_new else "no data the week before"


def _rtt(path: PathWeek) -> Cell:
    summary = path.summary
    if summary is None or summary.sent == 0:
        return Cell(figures.NO_DATA, tone="gap")
    if summary.rtt_median_ms is None:
        return Cell("no reply", tone="gap")
    note = f"min {figures.milliseconds(summary.rtt_min_ms)}"
    before_ms = None if path.before is None else path.before.rtt_median_ms
    if before_ms is not None:
        change_ms = summary.rtt_median_ms - before_ms
        was = f"was {figures.milliseconds(before_ms)}"
        note += f"; {was}" if abs(change_ms) < LEAST_CHANGE else f"; {_signed(change_ms)} ({was})"
    return Cell(figures.milliseconds(summary.rtt_median_ms), note)


def _estimate(path: PathWeek) -> Cell:
    summary = path.summary
    if summary is None or summary.sent == 0:
        return Cell(figures.NO_DATA, tone="gap")
    if summary.estimate_bps is None:
        return Cell("none", tone="gap")
    at_least = "≥ " if summary.estimate_is_floor else ""
    return Cell(f"{at_least}{figures.bit_rate(summary.estimate_bps)}", "none lost: a floor" if at_least else "")


def _measured(path: PathWeek) -> Cell:
    tests = path.throughput
    if tests is None:
        return Cell("not tested", tone="gap")
    counted = f"{figures.count(tests.measured)} of {figures.count(tests.tests)} tests"
    if tests.throughput_median_bps is None:
        return Cell("no result", counted, tone="gap")
    return Cell(figures.bit_rate(tests.throughput_median_bps), counted)


def _coverage(measured: int, planned: int | None) -> Cell:
    if planned is None or planned == 0:
        return Cell(f"{figures.count(measured)} bursts", "no plan known", tone="gap")
    share = figures.percent(measured / planned)
    return Cell(share, f"{figures.count(measured)} of {figures.count(planned)}", tone="" if measured else "gap")


def _share_measured(path: PathWeek) -> str | None:
    return None if not path.bursts_planned else figures.percent(path.bursts_measured / path.bursts_planned)


def _signed(change: float) -> str:
    """A change with its sign, to two significant digits but not finer than a thousandth."""
    decimals = max(0, min(3, 1 - math.floor(math.log10(abs(change)))))
    return f"{change:+.{decimals}f}".replace("-", "\N{MINUS SIGN}")


def _event(incident: Incident, report: WeeklyReport) -> Event:
    return Event(
        cause=incident.cause,
        rule=incident.rule,
        lasted=_lasted(incident.opened_at, incident.closed_at, report.written_at),
        summary=incident.summary,
        paths=tuple(str(row.path) for row in incident.paths.all()),
    )


def _lasted(opened_at: datetime, closed_at: datetime | None, now: datetime) -> str:
    length = figures.duration(((now if closed_at is None else closed_at) - opened_at).total_seconds())
    if closed_at is None:
        return f"Since {_moment(opened_at)} UTC, still open after {length}"
    return f"{_moment(opened_at)} to {_moment(closed_at)} UTC ({length})"


def _moment(at: datetime) -> str:
    return f"{at:%a %d %b %H:%M}"

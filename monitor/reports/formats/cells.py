"""The figures of a path as text for page, mail and PDF, including all edge cases."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.analysis import figures
from monitor.analysis.loss import LossBand, loss_band, loss_bound_ratio
from monitor.reports.contents.report import PathReport, Report
from monitor.reports.numbers import LEAST_CHANGE, Numbers


@dataclass(frozen=True, slots=True)
class TextCell:
    value: str
    note: str = ""  # its comparison or source
    mark: str = ""  # rating as a word
    tone: str = ""  # rating as a colour


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    note: str
    sign: str  # shows the rating where there is no colour
    loss: TextCell
    rtt: TextCell
    ipdv: TextCell
    available: TextCell
    zero_loss: TextCell
    estimate: TextCell
    measured: TextCell
    coverage: TextCell
    loss_days: tuple[float | None, ...]
    rtt_days_ms: tuple[float | None, ...]


def sign_words(report: Report) -> str:
    has_levels = any(path.targets for path in report.paths)
    return "● service level missed, – no data" if has_levels else "– no data"


def row(path: PathReport, report: Report, numbers: Numbers) -> Row:
    return Row(
        name=path.name,
        note=_note(path, report, numbers),
        sign="–" if not path.sent else "●" if path.is_below_level else "",
        loss=_loss(path, report, numbers),
        rtt=_rtt(path, numbers),
        ipdv=_ipdv(path, numbers),
        available=_share(path, _available(path), numbers),
        zero_loss=_share(path, _zero_loss(path), numbers),
        estimate=_estimate(path, numbers),
        measured=measured(path, numbers),
        coverage=_coverage(path, numbers),
        loss_days=path.loss_days,
        rtt_days_ms=path.rtt_days_ms,
    )


def _note(path: PathReport, report: Report, numbers: Numbers) -> str:
    notes = []
    if len(report.packet_sizes) > 1 and path.packet_bytes is not None:
        notes.append(f"{numbers.count(path.packet_bytes)} bytes")
    if path.retired_at is not None and path.retired_at < report.until:
        notes.append(f"retired {path.retired_at.astimezone(report.period.zone):%Y-%m-%d}")
    return ", ".join(notes)


def _loss(path: PathReport, report: Report, numbers: Numbers) -> TextCell:
    if path.sent == 0:
        return TextCell(figures.NO_DATA, mark="no data", tone="gap")
    value = numbers.loss(path.lost, path.sent)
    mark, tone = _rating(path)
    counts = f"{numbers.count(path.lost)} of {numbers.count(path.sent)}"
    return TextCell(value, f"{counts}; {_loss_before(path, report, numbers)}", mark, tone)


def _rating(path: PathReport) -> tuple[str, str]:
    # Loss band and tone; unrated if the upper bound leaves the best band.
    if path.lost == path.sent:
        return "all lost", "bad"
    if path.lost > 0:
        band = loss_band(path.lost / path.sent)
        return str(band), str(band).replace(" ", "-")
    bound = loss_bound_ratio(path.sent, path.sent)
    return ("excellent", "excellent") if loss_band(bound) is LossBand.EXCELLENT else ("no loss", "unrated")


def _loss_before(path: PathReport, report: Report, numbers: Numbers) -> str:
    before = path.before
    if before is None or before.sent == 0:
        return _nothing_before(path, report)
    was = numbers.loss(before.lost, before.sent)
    change = 100.0 * (path.lost / path.sent - before.lost / before.sent)
    if path.lost == 0 or before.lost == 0 or abs(change) < LEAST_CHANGE:
        return f"was {was}"
    return f"{numbers.signed(change)} points (was {was})"


def _nothing_before(path: PathReport, report: Report) -> str:
    is_new = path.began_at is not None and path.began_at >= report.period.since
    when = "week" if report.period.week is not None else "period"
    return f"new this {when}" if is_new else f"no data in the {when} before"


def _rtt(path: PathReport, numbers: Numbers) -> TextCell:
    summary = path.summary
    if summary is None or summary.sent == 0:
        return TextCell(figures.NO_DATA, tone="gap")
    if summary.rtt_median_ms is None:
        return TextCell("no reply", tone="gap")
    note = f"min {numbers.milliseconds(summary.rtt_min_ms)}"
    before_ms = None if path.before is None else path.before.rtt_median_ms
    if before_ms is not None:
        change_ms = summary.rtt_median_ms - before_ms
        was = f"was {numbers.milliseconds(before_ms)}"
        note += f"; {was}" if abs(change_ms) < LEAST_CHANGE else f"; {numbers.signed(change_ms)} ({was})"
    return TextCell(numbers.milliseconds(summary.rtt_median_ms), note)


def _ipdv(path: PathReport, numbers: Numbers) -> TextCell:
    if path.sent == 0 or path.summary is None:
        return TextCell(figures.NO_DATA, tone="gap")
    if not path.summary.received:
        return TextCell("no reply", tone="gap")
    return TextCell(numbers.milliseconds(path.summary.ipdv_ms))


def _available(path: PathReport) -> float | None:
    summary = path.summary
    return None if summary is None or not summary.bursts else 1.0 - summary.bursts_all_lost / summary.bursts


def _zero_loss(path: PathReport) -> float | None:
    summary = path.summary
    return None if summary is None or not summary.bursts else summary.bursts_none_lost / summary.bursts


def _share(path: PathReport, ratio: float | None, numbers: Numbers) -> TextCell:
    return TextCell(figures.NO_DATA, tone="gap") if ratio is None else TextCell(numbers.percent(ratio))


def _estimate(path: PathReport, numbers: Numbers) -> TextCell:
    summary = path.summary
    if summary is None or summary.sent == 0:
        return TextCell(figures.NO_DATA, tone="gap")
    if summary.estimate_bps is None:
        return TextCell("none", tone="gap")
    at_least = "≥ " if summary.estimate_is_floor else ""
    return TextCell(f"{at_least}{numbers.bit_rate(summary.estimate_bps)}", "no loss: a lower bound" if at_least else "")


def measured(path: PathReport, numbers: Numbers) -> TextCell:
    tests = path.throughput
    if tests is None:
        return TextCell("not tested", tone="gap")
    counted = f"{numbers.count(tests.measured)} of {numbers.count(tests.tests)} tests"
    if tests.throughput_median_bps is None:
        return TextCell("no result", counted, tone="gap")
    return TextCell(" to ".join(dict.fromkeys(map(numbers.bit_rate, tests.figures_bps))), counted)


def _coverage(path: PathReport, numbers: Numbers) -> TextCell:
    done, planned = path.bursts_measured, path.bursts_planned
    if not planned:
        return TextCell(f"{numbers.count(done)} bursts", "plan unknown", tone="gap")
    share = numbers.percent(done / planned)
    return TextCell(share, f"{numbers.count(done)} of {numbers.count(planned)}", tone="" if done else "gap")

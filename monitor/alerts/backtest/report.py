"""Output of a backtest as JSON and as text: alarms per path-week by rule, incidents, and scores of labelled series."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from monitor.alerts.backtest import archived, labelled
from monitor.alerts.backtest.replay import Alarm
from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.analysis.changes import scoring

WEEK_S = 7 * 86_400.0
MONTH_S = 30 * 86_400.0
NEWEST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class AlarmCounts:
    rule: str
    findings: int  # outside a lasting incident, by path
    incidents: int  # by cause


def counts(rules: Iterable[str], findings: Iterable[RuleFinding], alarms: Iterable[Alarm]) -> list[AlarmCounts]:
    """Count by rule; an incident counts for its gravest rule."""
    fired = Counter(finding.rule for finding in findings)
    opened = Counter(alarm.rule for alarm in alarms if alarm.opened_at is not None)
    return [AlarmCounts(rule, fired[rule], opened[rule]) for rule in rules]


def archive_report(rules: Sequence[str], outcome: archived.ArchiveReplay) -> dict[str, Any]:
    """All figures of a replay of the archive, as JSON."""
    findings = [finding for _, finding in outcome.findings]
    return {
        "path_weeks": outcome.measured_path_s / WEEK_S,
        "evaluated_every_s": outcome.every_s,
        "rules": _rules(counts(rules, findings, outcome.alarms), outcome.measured_path_s),
        "incidents": [_incident(alarm) for alarm in outcome.alarms if alarm.opened_at is not None],
    }


def labelled_report(rules: Sequence[str], outcome: labelled.LabelledReplay) -> dict[str, Any]:
    """All figures of a replay of labelled series, as JSON."""
    findings = [finding for _, finding in outcome.findings]
    measured_s = sum(float(trace.at_s[-1] - trace.at_s[0]) for trace in outcome.traces)
    score, quiet = outcome.score, outcome.quiet()
    return {
        "traces": len(outcome.traces),
        "samples": sum(len(trace.at_s) for trace in outcome.traces),
        "marked_changes": sum(len(trace.series.changed_at) for trace in outcome.traces),
        "path_weeks": measured_s / WEEK_S,
        "rules": _rules(counts(rules, findings, outcome.alarms), measured_s),
        "changes": {
            "raised": len(outcome.changes),
            "matched": score.matched,
            "false": score.false,
            "missed": score.missed,
            "precision": score.precision,
            "recall": score.recall,
            "f1": score.f1,
            "median_delay_samples": score.median_delay,
            "window_samples": scoring.WINDOW,
            "latest_samples": scoring.LATEST,
        },
        "quiet": {
            "path_months": quiet.quiet_s / MONTH_S,
            "alarms": quiet.alarms,
            "alarms_per_path_month": quiet.alarms * MONTH_S / quiet.quiet_s if quiet.quiet_s else None,
            "margin_samples": scoring.QUIET_MARGIN,
        },
    }


def tables(figures: dict[str, Any]) -> list[Table]:
    """The figures as tables: rules, and scores if there are any."""
    shown = [_table("rule", "fired", "a path-week", "incidents", "a path-week")]
    for row in figures["rules"]:
        shown[0].add_row(
            row["rule"], f"{row['fired']:,}", _rate(row["fired_per_path_week"]),
            f"{row['incidents']:,}", _rate(row["incidents_per_path_week"]),
        )  # fmt: skip
    if "changes" in figures:
        shown.append(_scores(figures))
    return shown


def words(figures: dict[str, Any]) -> str:
    weeks = f"{figures['path_weeks']:,.1f} path-weeks"
    if "traces" in figures:
        return (
            f"{figures['traces']} series, {figures['samples']:,} samples, {figures['marked_changes']} marked changes, "
            f"{weeks}"
        )
    return f"{weeks}, evaluated every {figures['evaluated_every_s']:g} s"


def incident_lines(figures: dict[str, Any]) -> list[str]:
    incidents = figures.get("incidents", [])
    lines = [
        f"{incident['found_at'][:16].replace('T', ' ')}  {_lasted(incident):>9}  "
        f"{incident['rule']:16} {incident['cause']}"
        for incident in incidents[-NEWEST_SHOWN:]
    ]
    left = len(incidents) - len(lines)
    return [*([f"({left} earlier ones are left out; --json has all)"] if left else []), *lines]


def _rules(rule_counts: Iterable[AlarmCounts], measured_s: float) -> list[dict[str, Any]]:
    weeks = measured_s / WEEK_S
    return [
        {
            "rule": count.rule,
            "fired": count.findings,
            "fired_per_path_week": count.findings / weeks if weeks else None,
            "incidents": count.incidents,
            "incidents_per_path_week": count.incidents / weeks if weeks else None,
        }
        for count in rule_counts
    ]


def _incident(alarm: Alarm) -> dict[str, Any]:
    return {
        "found_at": alarm.found_at.isoformat(),
        "ended_at": None if alarm.ended_at is None else alarm.ended_at.isoformat(),
        "lasted_s": None if alarm.ended_at is None else (alarm.ended_at - alarm.found_at).total_seconds(),
        "reopenings": alarm.reopenings,
        "rule": alarm.rule,
        "cause": alarm.cause,
        "because": alarm.because,
        "findings": [
            {
                "rule": finding.rule,
                "path": finding.path,
                "since": finding.since.isoformat(),
                "sentence": finding.sentence,
            }
            for finding in alarm.ever.values()
        ],
    }


def _scores(figures: dict[str, Any]) -> Table:
    changes, quiet = figures["changes"], figures["quiet"]
    table = _table("labels", "", "")
    rows = (
        ("F1", _share(changes["f1"]), f"within {changes['window_samples']} samples, one to one"),
        ("precision", _share(changes["precision"]), f"{changes['matched']} of {changes['raised']} raised"),
        ("recall", _share(changes["recall"]), f"of {figures['marked_changes']} marked"),
        (
            "median delay",
            "-" if changes["median_delay_samples"] is None else f"{changes['median_delay_samples']:g} samples",
            f"from the change to the sample that raised it; after {changes['latest_samples']} it counts as missed",
        ),
        (
            "alarms on quiet stretches",
            "-" if quiet["alarms_per_path_month"] is None else f"{quiet['alarms_per_path_month']:.2f} a path-month",
            f"{quiet['alarms']} in {quiet['path_months']:.1f} path-months, {quiet['margin_samples']} samples off marks",
        ),
    )
    for row in rows:
        table.add_row(*row)
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for place, column in enumerate(columns):
        is_number = place > 0 and column != ""
        table.add_column(column, justify="right" if is_number else "left", no_wrap=place == 0)
    return table


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.3g}"


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"


def _lasted(incident: dict[str, Any]) -> str:
    return "lasts" if incident["lasted_s"] is None else f"{incident['lasted_s'] / 60:,.0f} min"

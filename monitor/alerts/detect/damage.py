"""Severity by damage: heavy loss or lost throughput is critical, even for rules with warnings, unless mesh.toml sets
it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.alerts.models import Severity
from monitor.mesh.document.alert_rules import RuleSettings

# At this loss TCP Reno over 50 ms gets less than 1 Mbit/s (Mathis).
CRITICAL_LOSS_RATIO = 0.1
CRITICAL_THROUGHPUT_SHARE = 0.1
# Two low tests in a row prove nothing (docs/method/planted.md); the rank test takes at least three.
CRITICAL_TESTS = 3


def severity_of(
    settings: RuleSettings, loss_ratio: float | None, throughput_share: float | None = None, tests: int = CRITICAL_TESTS
) -> str:
    """Choose the severity of a finding; `tests` is the number of tests behind `throughput_share`."""
    if settings.severity != type(settings)().severity:
        return settings.severity
    is_lost = throughput_share is not None and throughput_share < CRITICAL_THROUGHPUT_SHARE
    if (loss_ratio is not None and loss_ratio >= CRITICAL_LOSS_RATIO) or (is_lost and tests >= CRITICAL_TESTS):
        return Severity.CRITICAL.value
    if is_lost:
        return max(Severity(settings.severity), Severity.WARNING, key=lambda severity: severity.rank).value
    return settings.severity


def severity_by_figures(settings: RuleSettings, figures: Mapping[str, Any]) -> str:
    tests = int(figures.get("tests", CRITICAL_TESTS))
    return severity_of(settings, loss_ratio(figures), _throughput_share(figures), tests)


def loss_ratio(figures: Mapping[str, Any]) -> float | None:
    """The loss with which a finding fired; None if its figures count no packets."""
    if figures.get("sent") and "lost" in figures:
        return float(figures["lost"]) / float(figures["sent"])
    return None


def _throughput_share(figures: Mapping[str, Any]) -> float | None:
    after_bps = figures.get("after_bps")
    if after_bps is not None and figures.get("before_bps"):
        return float(after_bps) / float(figures["before_bps"])
    return None

"""Severity by the size of the damage: heavy loss or a lost throughput is critical, also by a rule whose findings are
warnings. A throughput that two tests alone say is lost is a warning.

In: the settings of a rule, and the loss ratio or the share of the throughput that is left. Out: a severity. A severity
that mesh.toml sets for the rule stays as it is: somebody has decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.alerts.models import Severity
from monitor.mesh.document.alert_rules import RuleSettings

CRITICAL_LOSS_RATIO = 0.1
"""TCP Reno over 50 ms gets less than 1 Mbit/s then (Mathis)."""
CRITICAL_THROUGHPUT_SHARE = 0.1
CRITICAL_TESTS = 3
"""Tests below that share from which on it is critical. Two in a row are a notice without proof, see
docs/method/planted.md; the rank test takes at least three."""


def severity_of(
    settings: RuleSettings, loss_ratio: float | None, throughput_share: float | None = None, tests: int = CRITICAL_TESTS
) -> str:
    """The severity of a finding with this damage; `tests` is the number of tests that the share is of."""
    if settings.severity != type(settings)().severity:
        return settings.severity
    is_lost = throughput_share is not None and throughput_share < CRITICAL_THROUGHPUT_SHARE
    if (loss_ratio is not None and loss_ratio >= CRITICAL_LOSS_RATIO) or (is_lost and tests >= CRITICAL_TESTS):
        return Severity.CRITICAL.value
    if is_lost:
        return max(Severity(settings.severity), Severity.WARNING, key=lambda severity: severity.rank).value
    return settings.severity


def severity_by_figures(settings: RuleSettings, figures: Mapping[str, Any]) -> str:
    """The severity of a finding by the figures with which it fired."""
    tests = int(figures.get("tests", CRITICAL_TESTS))
    return severity_of(settings, loss_ratio(figures), _throughput_share(figures), tests)


def loss_ratio(figures: Mapping[str, Any]) -> float | None:
    """The loss with which a finding fired; None if its figures count no packets."""
    if figures.get("sent") and "lost" in figures:
        return float(figures["lost"]) / float(figures["sent"])
    return None


def _throughput_share(figures: Mapping[str, Any]) -> float | None:
    """Of several tests their median."""
    after_bps = figures.get("level_bps", figures.get("after_bps"))
    if after_bps is not None and figures.get("before_bps"):
        return float(after_bps) / float(figures["before_bps"])
    return None

"""Severity by the size of the damage: heavy loss or a lost throughput is critical, also by a rule whose findings are
warnings.

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


def severity_of(settings: RuleSettings, loss_ratio: float | None, throughput_share: float | None = None) -> str:
    """The severity of a finding with this damage."""
    has_own = settings.severity != type(settings)().severity
    is_heavy = (loss_ratio is not None and loss_ratio >= CRITICAL_LOSS_RATIO) or (
        throughput_share is not None and throughput_share < CRITICAL_THROUGHPUT_SHARE
    )
    return Severity.CRITICAL.value if is_heavy and not has_own else settings.severity


def severity_by_figures(settings: RuleSettings, figures: Mapping[str, Any]) -> str:
    """The severity of a finding by the figures with which it fired."""
    return severity_of(settings, _loss_ratio(figures), _throughput_share(figures))


def _loss_ratio(figures: Mapping[str, Any]) -> float | None:
    if "lost" in figures and "sent" in figures:
        return float(figures["lost"]) / max(float(figures["sent"]), 1.0)
    return None


def _throughput_share(figures: Mapping[str, Any]) -> float | None:
    if "after_bps" in figures and figures.get("before_bps"):
        return float(figures["after_bps"]) / float(figures["before_bps"])
    return None

"""All rules by their names in mesh.toml, gravest first: an incident's gravest rule is its headline."""

from __future__ import annotations

from monitor.alerts.detect.rules.counts import DUPLICATES, LOSS_REGRESSION, REORDERING
from monitor.alerts.detect.rules.estimate import ESTIMATE
from monitor.alerts.detect.rules.finding import AlertRule, RemovedRule
from monitor.alerts.detect.rules.limits import RTT_MEDIAN, RTT_MINIMUM, RTT_P95
from monitor.alerts.detect.rules.loss import Threshold
from monitor.alerts.detect.rules.reach import NO_DATA, UNREACHABLE
from monitor.alerts.detect.rules.request_response import REQUEST_RESPONSE, REQUEST_RESPONSE_LIMIT
from monitor.alerts.detect.rules.round_trips import DRIFT, JITTER, RTT
from monitor.alerts.detect.rules.route_change import ROUTE_CHANGE
from monitor.alerts.detect.rules.score_limits import MOS, THROUGHPUT_LIMIT
from monitor.alerts.detect.rules.shared_loss import SHARED_LOSS
from monitor.alerts.detect.rules.throughput import THROUGHPUT, THROUGHPUT_DROP
from monitor.mesh.document import alert_rules

LOSS = Threshold()

RULES: dict[str, AlertRule] = {
    rule.name: rule
    for rule in (
        UNREACHABLE, LOSS, LOSS_REGRESSION, SHARED_LOSS, RTT, RTT_MEDIAN, RTT_P95, RTT_MINIMUM, DRIFT, JITTER,
        ROUTE_CHANGE, MOS, THROUGHPUT, THROUGHPUT_LIMIT, THROUGHPUT_DROP, REQUEST_RESPONSE, REQUEST_RESPONSE_LIMIT,
        ESTIMATE, REORDERING, DUPLICATES, NO_DATA,
    )
}  # fmt: skip


def rule_of(name: str) -> AlertRule:
    return RULES.get(name) or RemovedRule(name)


def register() -> None:
    """Register the keys of all rules with the reader of mesh.toml."""
    for rule in RULES.values():
        alert_rules.register(rule.name, rule.settings)

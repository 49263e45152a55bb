"""All rules by their names in mesh.toml, the gravest first: its words head an incident that several rules found."""

from __future__ import annotations

from monitor.alerts.rules.counts import DUPLICATES, LOSS_REGRESSION, REORDERING
from monitor.alerts.rules.estimate import ESTIMATE
from monitor.alerts.rules.finding import Rule
from monitor.alerts.rules.loss import Threshold
from monitor.alerts.rules.reach import NO_DATA, UNREACHABLE
from monitor.alerts.rules.round_trips import DRIFT, JITTER, RTT
from monitor.alerts.rules.throughput import THROUGHPUT

LOSS = Threshold()

RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        UNREACHABLE, LOSS, LOSS_REGRESSION, RTT, DRIFT, JITTER, THROUGHPUT, ESTIMATE, REORDERING, DUPLICATES, NO_DATA
    )
}  # fmt: skip

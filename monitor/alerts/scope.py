"""The paths in use, and the settings of each alert rule by path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from monitor.alerts.detect.rules.catalogue import RULES, rule_of
from monitor.alerts.detect.rules.finding import Trouble
from monitor.mesh.document import alert_rules
from monitor.mesh.document.alert_rules import RuleSettings
from monitor.mesh.models import KindName
from monitor.mesh.queries import MeasuredPath, alerts, intervals_s, measured_paths


@dataclass(frozen=True, slots=True)
class RuleScope:
    pinged: dict[int, MeasuredPath]
    tested: dict[int, MeasuredPath]
    settings: dict[str, Mapping[int, RuleSettings]]
    one_way: dict[int, MeasuredPath] = field(default_factory=dict)  # with STAMP tests, at their interval `every_s`
    answered: dict[int, MeasuredPath] = field(default_factory=dict)  # with request-response tests

    @property
    def every(self) -> dict[int, MeasuredPath]:
        return self.pinged | self.tested | self.answered

    def path(self, path_id: int, rule: str) -> MeasuredPath | None:
        """The path, if it has the tests that the rule evaluates."""
        by_kind = {KindName.THROUGHPUT: self.tested, KindName.REQUEST_RESPONSE: self.answered}
        return by_kind.get(rule_of(rule).trouble.measured_by, self.pinged).get(path_id)


def scope_now() -> RuleScope:
    rules = alerts()
    measured = {kind: measured_paths(kind) for kind in dict.fromkeys(trouble.measured_by for trouble in Trouble)}
    places = {kind: {path_id: path.place for path_id, path in of_kind.items()} for kind, of_kind in measured.items()}
    settings = {
        name: alert_rules.settings_for(rules, name, places[rule.trouble.measured_by]) for name, rule in RULES.items()
    }
    pinged, tested = measured[KindName.PING], measured[KindName.THROUGHPUT]
    one_way = {
        path_id: replace(pinged[path_id], every_s=every_s)
        for path_id, every_s in intervals_s(KindName.STAMP).items()
        if path_id in pinged
    }
    return RuleScope(pinged, tested, settings, one_way, measured[KindName.REQUEST_RESPONSE])

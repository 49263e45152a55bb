"""The interface of a rule, and its finding: the rule fires on a path, with the figures behind it and a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from monitor.alerts.detect.snapshot import Snapshot
from monitor.mesh.alert_rules import RuleSettings


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """A rule that fires on a path. `figures` is JSON: input of `over` later, and figures that a reader may check.

    `since` is the start of the trouble as far as the rule can tell.
    """

    rule: str
    path_id: int
    path: str
    sentence: str
    since: datetime
    figures: Mapping[str, Any] = field(default_factory=dict)
    severity: str = "warning"


class AlertRule(Protocol):
    """A rule. Its only input is a snapshot, and it is stateless.

    `name` is the name of its table in mesh.toml, `settings` declares the keys and the default severity.
    """

    name: str

    @property
    def settings(self) -> type[RuleSettings]: ...

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        """Return a finding for each path of `settings` that fires."""
        ...

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        """Why a path that fired with these figures is normal again, in words; None while it is not, or unknown."""
        ...

"""What every rule is, and what it says of a path: that it fires, with the figures it rests on and one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from monitor.alerts.detect.snapshot import Sweep
from monitor.mesh.alert_rules import Rule as Settings


@dataclass(frozen=True, slots=True)
class Finding:
    """That `rule` fires on a path. `figures` is JSON: what `over` needs later, and what a reader may want to check.

    `since` is when the trouble began, as far as the rule can tell.
    """

    rule: str
    path_id: int
    path: str
    sentence: str
    since: datetime
    figures: Mapping[str, Any] = field(default_factory=dict)
    severity: str = "warning"


class Rule(Protocol):
    """One rule. It sees a sweep and nothing else, and keeps nothing between two."""

    name: str

    def judge(self, sweep: Sweep, settings: Mapping[int, Settings]) -> list[Finding]:
        """The paths of `settings` that fire."""
        ...

    def over(self, path_id: int, figures: Mapping[str, Any], sweep: Sweep) -> str | None:
        """Why a path that fired with these figures is well again, in words; None while it is not, or not known."""
        ...

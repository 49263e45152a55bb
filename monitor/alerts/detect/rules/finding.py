"""The interface of a rule, and its finding: the rule fires on a path, with the figures behind it and a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.snapshot import Snapshot
from monitor.archive.queries.around import BurstColumns
from monitor.mesh.document.alert_rules import RuleSettings


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


@dataclass(frozen=True, slots=True)
class BadBursts:
    """Bursts with the event of a rule: the first of a run is the beginning. `words` name them."""

    words: str
    are_bad: Callable[[BurstColumns], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class BurstLevel:
    """Figure of `rtt_windows` whose level in single bursts changes at the beginning."""

    figure: str


LOSSY = BadBursts("bursts with loss", lambda bursts: bursts.received < bursts.sent)


class AlertRule(Protocol):
    """A rule. Its only input is a snapshot, and it is stateless.

    `name` is the name of its table in mesh.toml, `settings` declares the keys and the default severity, `words` is the
    symptom in headlines. `began_by` says which bursts show when a finding began; None where the rule itself dates it.
    """

    name: str
    words: str

    @property
    def settings(self) -> type[RuleSettings]: ...

    @property
    def began_by(self) -> BadBursts | BurstLevel | None: ...

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        """Return a finding for each path of `settings` that fires."""
        ...

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        """Why a path that fired with these figures is normal again, in words; None while it is not, or unknown."""
        ...

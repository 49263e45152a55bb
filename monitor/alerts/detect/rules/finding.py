"""The interface of an alert rule, and its finding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.snapshot import Key, Snapshot
from monitor.archive.queries.around import BurstColumns
from monitor.archive.queries.paths import LossWindow
from monitor.mesh.document.alert_rules import RuleSettings
from monitor.mesh.models import KindName
from monitor.mesh.queries import MeasuredPath


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """A rule that fires on a path."""

    rule: str
    path_id: int
    path: str
    sentence: str
    since: datetime  # start of the trouble, as far as the rule can tell
    # JSON: input of `over` later, and figures a reader may check
    figures: Mapping[str, Any] = field(default_factory=dict)
    severity: str = "warning"

    @property
    def key(self) -> Key:
        return self.path_id, self.rule


@dataclass(frozen=True, slots=True)
class BadBursts:
    """Bursts with the event of a rule; the first of a run dates the beginning."""

    words: str
    are_bad: Callable[[BurstColumns], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class BurstLevel:
    """A figure of `rtt_windows` that dates the beginning, where its level changes."""

    figure: str


LOSSY = BadBursts("bursts with loss", lambda bursts: bursts.received < bursts.sent)


class Trouble(StrEnum):
    """Rules that may have a common cause: findings of the same trouble are grouped together."""

    ROUND_TRIPS = "round trips"
    THROUGHPUT = "throughput"
    RESPONSES = "request and response"
    NO_DATA = "no data"

    @property
    def measured_by(self) -> KindName:
        """Kind of the tests that its rules evaluate."""
        kinds = {Trouble.THROUGHPUT: KindName.THROUGHPUT, Trouble.RESPONSES: KindName.REQUEST_RESPONSE}
        return kinds.get(self, KindName.PING)

    @property
    def needs_tests(self) -> bool:
        return self is Trouble.THROUGHPUT

    @property
    def is_of_pings(self) -> bool:
        return self in (Trouble.ROUND_TRIPS, Trouble.NO_DATA)

    def paths_of(self, snapshot: Snapshot) -> dict[int, MeasuredPath]:
        if self is Trouble.RESPONSES:
            return snapshot.responses.paths
        return snapshot.tested_paths if self.needs_tests else snapshot.paths

    @property
    def prefix(self) -> str:
        return "" if self is Trouble.ROUND_TRIPS else f"{self}: "


class Effect(StrEnum):
    """The effect that a rule detects, where some likely causes apply to it alone."""

    NO_DATA = "no data"
    UNREACHABLE = "unreachable"
    LOSS = "loss"
    LOW_THROUGHPUT = "low throughput"


@dataclass(frozen=True, slots=True)
class LateResults:
    """How late results correct a finding."""

    # time to count again; None for figures of old versions without it
    period: Callable[[Mapping[str, Any]], tuple[datetime, datetime] | None]
    # corrected sentence, None if unchanged; ends with `NOT_FIRED` if not fired
    correct: Callable[[Mapping[str, Any], LossWindow], str | None]


NOT_FIRED = "below threshold"


def followed_figure(figures: Mapping[str, Any]) -> str | None:
    """The burst figure that tracks a finding's level, or None."""
    return figures.get("figure", figures.get("follows"))


ACCEPTED = "accepted as the new baseline"
LIMIT_CHANGED = "limit changed in mesh.toml"
# Ends of the reason of findings that are over though the path is as bad; baselines keep their time.
NEW_NORMAL = (ACCEPTED, LIMIT_CHANGED)


class AlertRule(ABC):
    """A stateless rule; its only input is a snapshot."""

    name: str  # of its table in mesh.toml
    words: str  # symptom in headlines
    settings: type[RuleSettings]  # keys and default severity
    began_by: BadBursts | BurstLevel | None = None  # bursts that date the beginning; None if the rule does
    figure_words: str = ""  # follow `words` before a different figure
    unit_of_hits: str = ""  # follows a count of events
    trouble: Trouble = Trouble.ROUND_TRIPS
    effect: Effect | None = None
    usual_cause: str | None = None  # sentence for evidence that fits no other cause
    late_results: LateResults | None = None  # None if results are judged once, as they arrive
    is_by_direction: bool = False  # also evaluated on each direction with STAMP tests
    needs_rtts: bool = False  # burst figures are not enough

    @abstractmethod
    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        """Return a finding for each path of `settings` that fires."""

    @abstractmethod
    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        """Why a path that fired with these figures is normal again; None while it is not, or unknown."""

    def wait_s(self, settings: RuleSettings, figures: Mapping[str, Any], every_s: float) -> float | None:
        """How long a path's track must be normal; None if `over` ends the finding."""
        return None

    def is_allowed(self, figures: Mapping[str, Any], settings: RuleSettings) -> bool:
        """Whether mesh.toml now has a less strict limit, which ends the finding."""
        return False

    def windows_s(self, settings: Mapping[int, RuleSettings]) -> set[float]:
        """Lengths of extra count windows that the snapshot needs."""
        return set()


class RemovedRule(AlertRule):
    """A rule of stored incidents that this version lacks."""

    settings = RuleSettings

    def __init__(self, name: str) -> None:
        self.name = name
        self.words = name

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        return []

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        return None

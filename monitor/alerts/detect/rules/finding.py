"""The interface of a rule, and its finding: the rule fires on a path, with the figures behind it and a sentence."""

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

    @property
    def key(self) -> Key:
        return self.path_id, self.rule


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


class Trouble(StrEnum):
    """Rules that may have a common cause: findings of the same trouble are grouped into incidents together."""

    ROUND_TRIPS = "round trips"
    THROUGHPUT = "throughput"
    RESPONSES = "request and response"
    NO_DATA = "no data"

    @property
    def measured_by(self) -> KindName:
        """The kind of the tests whose paths it is evaluated on."""
        kinds = {Trouble.THROUGHPUT: KindName.THROUGHPUT, Trouble.RESPONSES: KindName.REQUEST_RESPONSE}
        return kinds.get(self, KindName.PING)

    @property
    def needs_tests(self) -> bool:
        """Whether its paths are those with throughput tests."""
        return self is Trouble.THROUGHPUT

    @property
    def is_of_pings(self) -> bool:
        """Whether its rules judge the newest bursts of a path."""
        return self in (Trouble.ROUND_TRIPS, Trouble.NO_DATA)

    def paths_of(self, snapshot: Snapshot) -> dict[int, MeasuredPath]:
        """The paths that it is evaluated on."""
        if self is Trouble.RESPONSES:
            return snapshot.responses.paths
        return snapshot.tested_paths if self.needs_tests else snapshot.paths

    @property
    def prefix(self) -> str:
        """Beginning of the names of its causes."""
        return "" if self is Trouble.ROUND_TRIPS else f"{self}: "


class Effect(StrEnum):
    """The effect that a rule detects, where some likely causes apply to it alone."""

    NO_DATA = "no data"
    UNREACHABLE = "unreachable"
    LOSS = "loss"
    LOW_THROUGHPUT = "low throughput"


@dataclass(frozen=True, slots=True)
class LateResults:
    """How results that arrive late correct a finding with these figures.

    `period(figures)` is the time to count again, None for figures of an old version without it. `correct(figures,
    counted)` is the corrected sentence, None where nothing has changed; it ends with `NOT_FIRED` where the rule would
    not fire on all results.
    """

    period: Callable[[Mapping[str, Any]], tuple[datetime, datetime] | None]
    correct: Callable[[Mapping[str, Any], LossWindow], str | None]


NOT_FIRED = "below threshold"


def followed_figure(figures: Mapping[str, Any]) -> str | None:
    """The figure of bursts whose level a finding with these figures follows: that which fired, or that of a change
    which is no step of its own."""
    return figures.get("figure", figures.get("follows"))


ACCEPTED = "accepted as the new baseline"
LIMIT_CHANGED = "limit changed in mesh.toml"
NEW_NORMAL = (ACCEPTED, LIMIT_CHANGED)
"""Ends of the reason for which a finding is over though the path is as bad as before. Stored incidents have them:
baselines keep their time."""


class AlertRule(ABC):
    """A rule. Its only input is a snapshot, and it is stateless.

    `name` is the name of its table in mesh.toml, `settings` declares the keys and the default severity, `words` is the
    symptom in headlines, `figure_words` follow it before a figure that is another, `unit_of_hits` follows a count of
    events there. `began_by` says which bursts show when a
    finding began; None where the rule itself dates it.

    `trouble` is the group of rules that it belongs to, `effect` and `usual_cause` are for the likely cause of an
    incident: the latter is a sentence for evidence that fits no other cause. `late_results` is None where results are
    judged once, in the order in which they arrive. A rule `is_by_direction` if it is evaluated on each direction of
    paths with STAMP tests too (`by_direction`); it `needs_rtts` if the figures of bursts are not enough.
    """

    name: str
    words: str
    settings: type[RuleSettings]
    began_by: BadBursts | BurstLevel | None = None
    figure_words: str = ""
    unit_of_hits: str = ""
    trouble: Trouble = Trouble.ROUND_TRIPS
    effect: Effect | None = None
    usual_cause: str | None = None
    late_results: LateResults | None = None
    is_by_direction: bool = False
    needs_rtts: bool = False

    @abstractmethod
    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        """Return a finding for each path of `settings` that fires."""

    @abstractmethod
    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        """Why a path that fired with these figures is normal again, in words; None while it is not, or unknown."""

    def wait_s(self, settings: RuleSettings, figures: Mapping[str, Any], every_s: float) -> float | None:
        """How long the track of a path must have been normal again until a finding with these figures ends; None for a
        rule whose signal has no track, which `over` ends."""
        return None

    def is_allowed(self, figures: Mapping[str, Any], settings: RuleSettings) -> bool:
        """Whether mesh.toml has a limit now that is less strict than that of these figures: the finding ends, and fires
        again if the path is beyond the new limit too."""
        return False

    def windows_s(self, settings: Mapping[int, RuleSettings]) -> set[float]:
        """Lengths of the windows whose counts the snapshot needs besides the usual ones."""
        return set()


class RemovedRule(AlertRule):
    """A rule of stored incidents that this version does not have: its name, and nothing else."""

    settings = RuleSettings

    def __init__(self, name: str) -> None:
        self.name = name
        self.words = name

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        return []

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        return None

"""Alert rules that mesh.toml can set, their defaults, and the settings that apply to each path.

A rule is a frozen struct; each field is a key of its table with the allowed values. `[alerts.loss]` sets a rule for the
whole mesh, `[[alerts.for]]` for a group, for paths from or to a site, or for a single path; later tables override
earlier ones key by key. Unset keys have the default; `enabled = false` disables a rule. `monitor.alerts` evaluates the
rules.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

DAY_S = 86_400

SEVERITIES = ("notice", "warning", "critical")
"""Severity of an incident, lowest first."""

SEVERITY = "severity"
SEVERITY_OF = {
    "unreachable": "critical",
    "rtt_drift": "notice",
    "jitter": "notice",
    "estimate": "notice",
    "reordering": "notice",
    "duplicates": "notice",
}
"""Default severity of each rule; warning for rules not listed."""


DOC = "doc"
"""Key of a field's metadata: its description in docs/reference/mesh.md."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a number, inclusive unless `are_open`."""

    low: float
    high: float
    are_open: bool = False


@dataclass(frozen=True, slots=True)
class Key:
    """Key of a rule's table. `limits` is None for booleans."""

    default: float
    limits: Bounds | None


def _key(default: float, low: float, high: float, sentence: str, *, are_open: bool = False) -> Any:
    return field(default=default, metadata={"limits": Bounds(low, high, are_open), DOC: sentence})


def _flag(sentence: str, *, default: bool) -> Any:
    return field(default=default, metadata={DOC: sentence})


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSettings:
    """Keys that every rule has. `severity` is empty where mesh.toml does not set it."""

    enabled: bool = _flag("Whether the rule is on.", default=True)
    severity: str = field(default="", metadata={DOC: "Severity of the rule's incidents."})


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRule(RuleSettings):
    """Loss is significantly above `above_ratio`, over half of `window_s` or longer; resolved after `window_s`."""

    above_ratio: float = _key(0.01, 0, 1, "Loss, lost over sent, above which an incident opens.", are_open=True)
    window_s: int = _key(
        600, 10, DAY_S, "Loss must last half as long at least; without it for this time the incident is resolved."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionRule(RuleSettings):
    """Loss has risen above the path's own baseline by at least `least_rise_ratio`."""

    least_rise_ratio: float = _key(0.001, 0, 1, "Minimum rise of the loss above the baseline.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AppearanceRule(RuleSettings):
    """Reordering or duplicates have become more frequent by at least this share of the bursts."""

    least_rise_ratio: float = _key(0.02, 0, 1, "Minimum rise of the share of bursts with such packets.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTripRule(RuleSettings):
    """RTT has risen suddenly, by `least_rise_ms` or by `least_rise_ratio` of its baseline; with `every_change`, any
    significant step, falls included."""

    least_rise_ms: float = _key(6.0, 0.1, 10_000, "Minimum rise of the RTT.")
    least_rise_ratio: float = _key(
        0.08, 0.01, 100, "Minimum rise as a share of the baseline; the lower of the two minima counts."
    )
    every_change: bool = _flag("Report every significant step, falls included.", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class JitterRule(RuleSettings):
    """Jitter has risen suddenly, by at least `least_rise_ms`."""

    least_rise_ms: float = _key(6.0, 0.1, 10_000, "Minimum rise of the jitter.")


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateRule(RuleSettings):
    """The throughput estimate from loss and RTT of whole days is significantly lower than before, and its median is
    below `below_ratio` of the baseline median."""

    below_ratio: float = _key(0.5, 0, 1, "Ratio to the baseline median below which an incident opens.", are_open=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRule(RuleSettings):
    """RTT of whole days has risen slowly, by at least `least_rise_ms`."""

    least_rise_ms: float = _key(6.0, 0.1, 10_000, "Minimum rise of the daily median RTT.")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachableRule(RuleSettings):
    """No reply for `after_s`, and for at least three cycles."""

    after_s: int = _key(180, 10, DAY_S, "Time without a reply after which an incident opens.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputRule(RuleSettings):
    """The newest tests are significantly slower than those before, and their median is below `below_ratio` of
    theirs."""

    below_ratio: float = _key(0.85, 0, 1, "Ratio to the baseline median below which an incident opens.", are_open=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoDataRule(RuleSettings):
    """No measurement for `after_s`, and for at least three cycles."""

    after_s: int = _key(300, 10, DAY_S, "Time without a measurement after which an incident opens.")


RULES: dict[str, type[RuleSettings]] = {
    "loss": LossRule,
    "loss_regression": RegressionRule,
    "unreachable": UnreachableRule,
    "rtt": RoundTripRule,
    "rtt_drift": DriftRule,
    "jitter": JitterRule,
    "reordering": AppearanceRule,
    "duplicates": AppearanceRule,
    "throughput": ThroughputRule,
    "estimate": EstimateRule,
    "no_data": NoDataRule,
}
"""Rules by the name of their table."""

SELECTORS = {
    "group": "Selects the paths within this group.",
    "from": "Selects the paths from this site.",
    "to": "Selects the paths to this site.",
}
"""Keys of [[alerts.for]] that select paths, with their description."""

PATH = "path"
"""Key that selects a single path by the names of its hosts: `path = ["slac", "cern"]`."""
PATH_DOC = 'Selects a single path by the names of its hosts: `path = ["slac", "cern"]` is from slac to cern.'

FOR = "for"


@dataclass(frozen=True, slots=True)
class Place:
    """Location of a path for selectors: the sites of its ends, the groups that contain both, its two hosts."""

    source: str
    destination: str
    groups: frozenset[str] = frozenset()
    hosts: tuple[str, ...] = ()

    def is_in(self, selector: Mapping[str, Any]) -> bool:
        """Whether every selector key of `selector` matches."""
        return (
            selector.get("group") in (None, *self.groups)
            and selector.get("from") in (None, self.source)
            and selector.get("to") in (None, self.destination)
            and tuple(selector.get(PATH, self.hosts)) == self.hosts
        )


def settings_for(alerts: Mapping[str, Any], name: str, places: Mapping[int, Place]) -> dict[int, RuleSettings]:
    """Settings of rule `name` on each path, by the keys of `places`; paths where it is disabled are left out.

    `alerts` is the [alerts] table as checked by `document.read`. Paths with the same settings share a `RuleSettings`.
    """
    specials = [special for special in alerts.get(FOR, ()) if name in special]
    made: dict[tuple[bool, ...], RuleSettings] = {}
    settings = {}
    for path_id, place in places.items():
        holds = tuple(place.is_in(special) for special in specials)
        if holds not in made:
            layers = [
                alerts.get(name, {}),
                *(special[name] for special, here in zip(specials, holds, strict=True) if here),
            ]
            made[holds] = RULES[name](**{key: value for layer in layers for key, value in layer.items()})
        if made[holds].enabled:
            settings[path_id] = made[holds]
    return settings


def severity_of(name: str, rule: RuleSettings) -> str:
    """Severity of an incident of rule `name` with these settings."""
    return rule.severity or SEVERITY_OF.get(name, "warning")


def keys_of(rule: type[RuleSettings]) -> Iterator[tuple[str, Key]]:
    """Keys of a rule's table by name, without `severity`, which is a word."""
    for rule_field in dataclasses.fields(rule):
        if rule_field.name == SEVERITY:
            continue
        yield rule_field.name, Key(getattr(rule(), rule_field.name), rule_field.metadata.get("limits"))

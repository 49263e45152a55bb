"""The alert rules that mesh.toml can set, their defaults, and which settings hold on which path.

A rule is a frozen struct; each field is a key of its table and says which values it takes. `[alerts.loss]` sets a rule
for the whole mesh, `[[alerts.for]]` for a group, for what goes out of or into a site, or for one path; a later one
wins, key by key. What is not written has the default; `enabled = false` switches a rule off. What the rules do is in
`monitor.alerts`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

DAY_S = 86_400

SEVERITIES = ("notice", "warning", "critical")
"""How much an incident matters, the least first."""

SEVERITY = "severity"
SEVERITY_OF = {
    "unreachable": "critical",
    "rtt_drift": "notice",
    "jitter": "notice",
    "estimate": "notice",
    "reordering": "notice",
    "duplicates": "notice",
}
"""The severity of each rule unless mesh.toml says another; of those that are not here it is a warning."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a number may be: from `low` to `high`; where they are open, neither of the two themselves."""

    low: float
    high: float
    are_open: bool = False


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a rule's table. `limits` is None for what is true or false."""

    default: float
    limits: Limits | None


def _key(default: float, low: float, high: float, *, are_open: bool = False) -> Any:
    return field(default=default, metadata={"limits": Limits(low, high, are_open)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What every rule has. `severity` is empty where mesh.toml does not say it."""

    enabled: bool = True
    severity: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRule(Rule):
    """The loss is proven to be above `above_ratio`, over half of `window_s` or longer; it is over after `window_s`."""

    above_ratio: float = _key(0.01, 0, 1, are_open=True)
    window_s: int = _key(600, 10, DAY_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionRule(Rule):
    """Loss has risen against the path's own baseline, by `least_rise_ratio` at least."""

    least_rise_ratio: float = _key(0.001, 0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppearanceRule(Rule):
    """Reordering or duplicates have become more frequent, by this share of the bursts at least."""

    least_rise_ratio: float = _key(0.02, 0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTripRule(Rule):
    """Round trips have risen suddenly, by `least_rise_ms` or by `least_rise_ratio` of what they were; with
    `every_change` any step that is proven, falls included."""

    least_rise_ms: float = _key(6.0, 0.1, 10_000)
    least_rise_ratio: float = _key(0.08, 0.01, 100)
    every_change: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JitterRule(Rule):
    """The variation of round trips has risen suddenly, by `least_rise_ms` at least."""

    least_rise_ms: float = _key(6.0, 0.1, 10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateRule(Rule):
    """The throughput that the loss and the round trips of whole days allow is proven lower than before, and its median
    is below `below_ratio` of theirs."""

    below_ratio: float = _key(0.5, 0, 1, are_open=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRule(Rule):
    """The round trips of whole days have risen slowly, by `least_rise_ms` at least."""

    least_rise_ms: float = _key(6.0, 0.1, 10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachableRule(Rule):
    """Nothing came back for `after_s`, in three cycles at least."""

    after_s: int = _key(180, 10, DAY_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputRule(Rule):
    """The newest tests are proven lower than those before, and their median is below `below_ratio` of theirs."""

    below_ratio: float = _key(0.85, 0, 1, are_open=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoDataRule(Rule):
    """Nothing was measured for `after_s`, and for three cycles at least."""

    after_s: int = _key(300, 10, DAY_S)


RULES: dict[str, type[Rule]] = {
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
"""Every rule by the name of its table."""

SELECTORS = ("group", "from", "to")
"""The keys of [[alerts.for]] that say which paths it is for: those within a group, from a site, to a site."""

PATH = "path"
"""The key that says it of one path, by the names of its hosts: `path = ["slac", "cern"]`."""

FOR = "for"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path lies, as far as settings ask: the sites of its ends, the groups that have both, its two hosts."""

    source: str
    destination: str
    groups: frozenset[str] = frozenset()
    hosts: tuple[str, ...] = ()

    def is_in(self, selector: Mapping[str, Any]) -> bool:
        """Whether every key of `selector` that is a selector holds here."""
        return (
            selector.get("group") in (None, *self.groups)
            and selector.get("from") in (None, self.source)
            and selector.get("to") in (None, self.destination)
            and tuple(selector.get(PATH, self.hosts)) == self.hosts
        )


def settings_for(alerts: Mapping[str, Any], name: str, places: Mapping[int, Place]) -> dict[int, Rule]:
    """Rule `name` as it holds on each path, by the keys of `places`; a path on which it is switched off is left out.

    `alerts` is the [alerts] table as `document.read` has checked it. Paths with the same settings share one `Rule`.
    """
    specials = [one for one in alerts.get(FOR, ()) if name in one]
    made: dict[tuple[bool, ...], Rule] = {}
    found = {}
    for path_id, place in places.items():
        holds = tuple(place.is_in(one) for one in specials)
        if holds not in made:
            layers = [alerts.get(name, {}), *(one[name] for one, here in zip(specials, holds, strict=True) if here)]
            made[holds] = RULES[name](**{key: value for layer in layers for key, value in layer.items()})
        if made[holds].enabled:
            found[path_id] = made[holds]
    return found


def severity_of(name: str, rule: Rule) -> str:
    """How much it matters what rule `name` finds, with these settings."""
    return rule.severity or SEVERITY_OF.get(name, "warning")


def keys_of(rule: type[Rule]) -> Iterator[tuple[str, Key]]:
    """Each key of a rule's table by its name, but for `severity`, which is a word."""
    for one in dataclasses.fields(rule):
        if one.name == SEVERITY:
            continue
        yield one.name, Key(getattr(rule(), one.name), one.metadata.get("limits"))

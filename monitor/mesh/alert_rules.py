"""The alert rules that mesh.toml can set, their defaults, and which settings hold on which path.

A rule is a frozen struct; each field is a key of its table and says which values it takes. `[alerts.loss]` sets a rule
for the whole mesh, `[[alerts.for]]` for a group or for what goes out of or into a site; a later one wins, key by key.
What is not written has the default; `enabled = false` switches a rule off. What the rules do is in `monitor.alerts`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

DAY_S = 86_400


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
    """What every rule has."""

    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRule(Rule):
    """The lower 95% bound of the loss over `window_s` is above `above_ratio`."""

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
    """Round trips, or their variation, have risen suddenly by `least_rise_ms` at least."""

    least_rise_ms: float = _key(6.0, 0.1, 10_000)


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
    "jitter": RoundTripRule,
    "reordering": AppearanceRule,
    "duplicates": AppearanceRule,
    "throughput": ThroughputRule,
    "no_data": NoDataRule,
}
"""Every rule by the name of its table."""

SELECTORS = ("group", "from", "to")
"""The keys of [[alerts.for]] that say which paths it is for: those within a group, from a site, to a site."""

FOR = "for"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path lies, as far as settings ask: the sites of its ends and the groups that have both."""

    source: str
    destination: str
    groups: frozenset[str] = frozenset()

    def is_in(self, selector: Mapping[str, Any]) -> bool:
        """Whether every key of `selector` that is a selector holds here."""
        return (
            selector.get("group") in (None, *self.groups)
            and selector.get("from") in (None, self.source)
            and selector.get("to") in (None, self.destination)
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


def keys_of(rule: type[Rule]) -> Iterator[tuple[str, Key]]:
    """Each key of a rule's table by its name."""
    for one in dataclasses.fields(rule):
        yield one.name, Key(getattr(rule(), one.name), one.metadata.get("limits"))

"""Settings of alert rules in mesh.toml, registered as structs by `monitor.alerts.detect.rules`, and their resolution
for each path.

Later [[alerts.for]] tables override earlier tables key by key; unset keys have the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, get_args

from msgspec import Meta, Struct, field

from monitor.analysis.alarms.by_setting import OneForAll
from probes.toml.keys import DISTINCT, Text, meaning, must_be

Severity = Literal["notice", "warning", "critical"]
# Severity of an incident, lowest first.
SEVERITIES = get_args(Severity)

RuleSeverity = Annotated[Severity, meaning("Severity of the rule's incidents.")]
# A rule would fire always or never at 0 or 1.
OpenRatio = Annotated[float, Meta(gt=0, lt=1)]
Share = Annotated[float, Meta(ge=0, le=1)]
RiseMs = Annotated[float, Meta(ge=0.1, le=10_000)]
WaitS = Annotated[int, Meta(ge=10, le=86_400)]
# A time that must be at least as long as the interval between ping cycles.
HOLDS_A_CYCLE = Meta(extra={"holds_a_cycle": True})


DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class LeastSchedule:
    """The slowest schedule of pings at which a rule can fire: `words` say what it needs."""

    words: str  # its needs, for messages
    longest_s: float  # interval with a single packet size, times the sizes if `per_size`
    per_size: bool = False

    def longest_every_s(self, sizes: int) -> int:
        """Longest interval, in whole seconds, with this many packet sizes."""
        return int(self.longest_s * (sizes if self.per_size else 1))


class RuleSettings(Struct, frozen=True, kw_only=True):
    """Keys that every rule has; a rule with another default severity declares the key again."""

    # None where any schedule of mesh.toml will do.
    schedule: ClassVar[LeastSchedule | None] = None

    enabled: Annotated[bool, meaning("Whether the rule is on.")] = True
    severity: RuleSeverity = "warning"

    @property
    def is_on(self) -> bool:
        return self.enabled


class LimitSettings(RuleSettings, frozen=True, kw_only=True):
    """Keys of a rule with an absolute limit: it is off where none is set."""

    @property
    def limit(self) -> float | None:
        return None

    @property
    def is_on(self) -> bool:
        return self.enabled and self.limit is not None


# Settings of each rule by the name of its table; `monitor.alerts` registers its rules.
RULES: dict[str, type[RuleSettings]] = {}

PATH = "path"
PATH_MEANING = 'Selects a single path by the names of its hosts: `path = ["slac", "cern"]` is from slac to cern.'
HostPair = Annotated[
    list[str],
    DISTINCT,
    Meta(min_length=2, max_length=2),
    must_be('the names of two hosts, as in path = ["slac", "cern"] (from one host to another)'),
]


class Selectors(Struct, frozen=True, kw_only=True):
    """Keys that select paths, in [[alerts.for]], [[alerts.notify]] and [[service_level.for]]."""

    group: Annotated[Text, meaning("Selects the paths within this group.")] | None = None
    source: Annotated[Text, meaning("Selects the paths from this site.")] | None = field(name="from", default=None)
    destination: Annotated[Text, meaning("Selects the paths to this site.")] | None = field(name="to", default=None)
    path: Annotated[HostPair, meaning(PATH_MEANING)] | None = None


FOR = "for"


@dataclass(frozen=True, slots=True)
class Place:
    """Location of a path for selectors: the sites of its ends, the groups that contain both, its two hosts."""

    source: str
    destination: str
    groups: frozenset[str] = frozenset()
    hosts: tuple[str, ...] = ()

    def is_in(self, selector: Mapping[str, Any]) -> bool:
        return (
            selector.get("group") in (None, *self.groups)
            and selector.get("from") in (None, self.source)
            and selector.get("to") in (None, self.destination)
            and tuple(selector.get(PATH, self.hosts)) == self.hosts
        )


def settings_for(alerts: Mapping[str, Any], name: str, places: Mapping[int, Place]) -> Mapping[int, RuleSettings]:
    """Settings of rule `name` on each path where it is enabled, from the checked [alerts] table. Equal settings share a
    `RuleSettings`."""
    specials = [special for special in alerts.get(FOR, ()) if name in special]
    if not specials:
        general = RULES[name](**alerts.get(name, {}))
        return OneForAll(general, places) if general.is_on else {}
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
        if made[holds].is_on:
            settings[path_id] = made[holds]
    return settings


def is_on_anywhere(alerts: Mapping[str, Any], name: str) -> bool:
    general = alerts.get(name, {})
    special = [table[name] for table in alerts.get(FOR, ()) if name in table]
    return any(RULES[name](**{**general, **keys}).is_on for keys in ({}, *special))


def register(name: str, rule: type[RuleSettings]) -> None:
    """Make `name` a table of [alerts] with these settings' keys."""
    RULES[name] = rule

"""Settings of alert rules in mesh.toml, and those that apply to each path.

A rule of `monitor.alerts.detect.rules` declares its keys as a frozen struct, each field with its default, bounds and
description, and registers it here. `[alerts.loss]` sets a rule for the whole mesh, `[[alerts.for]]` for a group, for
paths from or to a site, or for a single path; later tables override earlier ones key by key. Unset keys have the
default; `enabled = false` disables a rule.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

DAY_S = 86_400

SEVERITIES = ("notice", "warning", "critical")
"""Severity of an incident, lowest first."""

SEVERITY = "severity"
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
    """Key of a rule's table. `limits` is None for booleans. `holds_a_cycle`: the key is a time that must be at least as
    long as the interval between ping cycles."""

    default: float
    limits: Bounds | None
    holds_a_cycle: bool = False


def key(
    default: float, low: float, high: float, sentence: str, *, are_open: bool = False, holds_a_cycle: bool = False
) -> Any:
    """Key with a number: default, bounds, description for the docs."""
    metadata = {"limits": Bounds(low, high, are_open), "holds_a_cycle": holds_a_cycle, DOC: sentence}
    return field(default=default, metadata=metadata)


def flag(sentence: str, *, default: bool) -> Any:
    """Key with a boolean."""
    return field(default=default, metadata={DOC: sentence})


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSettings:
    """Keys that every rule has. `severity` is empty where mesh.toml does not set it: it is then `default_severity`."""

    default_severity: ClassVar[str] = "warning"

    enabled: bool = flag("Whether the rule is on.", default=True)
    severity: str = field(default="", metadata={DOC: "Severity of the rule's incidents."})


RULES: dict[str, type[RuleSettings]] = {}
"""Settings of each rule by the name of its table; `monitor.alerts` registers its rules."""

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


def severity_of(rule: RuleSettings) -> str:
    """Severity of an incident of a rule with these settings."""
    return rule.severity or rule.default_severity


def register(name: str, rule: type[RuleSettings]) -> None:
    """Make `name` a table of [alerts] with the keys of these settings."""
    RULES[name] = rule


def keys_of(rule: type[RuleSettings]) -> Iterator[tuple[str, Key]]:
    """Keys of a rule's table by name, without `severity`, which is a word."""
    for rule_field in dataclasses.fields(rule):
        if rule_field.name == SEVERITY:
            continue
        metadata = rule_field.metadata
        yield (
            rule_field.name,
            Key(getattr(rule(), rule_field.name), metadata.get("limits"), metadata.get("holds_a_cycle", False)),
        )

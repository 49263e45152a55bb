"""Read limits.toml, and list the rules with their meaning."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from probes.site.limits.limits import Limits
from probes.site.limits.networks import DEFAULT_ALLOWED, GUARDED, NEVER, networks_around
from probes.toml import tables
from probes.toml.keys import keys_of, to_toml

ALLOWED, FORBIDDEN = "networks.allowed", "networks.forbidden"
NAMES_OF_GUARDED = frozenset(f"networks.{name}" for name, _ in GUARDED)
NAMES_OF_NEVER = frozenset(name for name, _ in NEVER)
SHOWN = 3


class LimitsError(tables.FileError):
    """The limits file is invalid or unreadable; the agent does not start without its limits."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A key of the file with its meaning and the value in force."""

    name: str
    meaning: str
    value: object
    is_default: bool


def remedy(file: Path | None, data: Path, forbidden: Mapping[str, str]) -> str:
    """Where to change limits.toml to permit these addresses."""
    names = {address: rule.partition(":")[0] for address, rule in forbidden.items()}
    if any(name in NAMES_OF_NEVER for name in names.values()):
        return "give a host's address in mesh.toml"
    listed = [address for address, name in names.items() if name == FORBIDDEN]
    if listed:
        return f"{_place(file, data, FORBIDDEN)}: remove the network of {', '.join(listed[:SHOWN])}"
    # A network of the site's own, or of its managers, opens by a network inside it alone.
    alike = [address for address, name in names.items() if name in NAMES_OF_GUARDED]
    alone = [f"{address}/{ipaddress.ip_address(address).max_prefixlen}" for address in names if address not in alike]
    permitting = (*networks_around(alike), *alone)
    around, usual = (", ".join(map(to_toml, networks)) for networks in (permitting, DEFAULT_ALLOWED))
    return (
        f"{_place(file, data, ALLOWED)}: add {around}, or narrower networks, to allowed of [networks]"
        f" (by default {usual}, to be kept); a running agent takes the file up within seconds"
    )


def _place(file: Path | None, data: Path, rule: str) -> str:
    if file is None:
        return f"{data / 'limits.toml'} (write it)"
    section, key = rule.split(".")
    try:
        table = tables.read(file, Limits, LimitsError).table(section)
        return f"{file}:{1 if table is None else table.line_of(key)}"
    except LimitsError:
        return str(file)


def rules(limits: Limits) -> list[Rule]:
    listed = []
    for section in Limits.__struct_fields__:
        of_section: msgspec.Struct = getattr(limits, section)
        for key in keys_of(type(of_section)).values():
            if key.tables:
                listed += _rules_of_tables(f"{section}.{key.name}", getattr(of_section, key.attribute))
                continue
            value = getattr(of_section, key.attribute)
            listed.append(Rule(f"{section}.{key.name}", key.meaning, value, value == key.default))
    return listed


def _rules_of_tables(name: str, tables: Sequence[msgspec.Struct]) -> list[Rule]:
    return [
        Rule(f"{name}[{number}].{key.name}", key.meaning, value, value == key.default)
        for number, table in enumerate(tables, 1)
        for key in keys_of(type(table)).values()
        if (value := getattr(table, key.attribute)) is not None
    ]


def read_limits(path: Path | None) -> Limits:
    """The limits in a file, or the defaults. Raises `LimitsError` with every problem and its line."""
    if path is None:
        return Limits()
    table = tables.read(path, Limits, LimitsError)
    table.raise_problems()
    limits: Limits = table.entry()
    return limits

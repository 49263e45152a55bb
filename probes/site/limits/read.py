"""Read limits.toml, and list the rules with their meaning.

In: the path of the file. Out: `Limits`, or `LimitsError` with every problem and its line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from probes.site.limits.limits import Limits
from probes.toml import tables
from probes.toml.keys import keys_of


class LimitsError(tables.FileError):
    """The limits file is invalid or cannot be read. The agent does not start without the limits it was given."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A key of the file with its meaning and the value in force."""

    name: str
    meaning: str
    value: object
    is_default: bool


def rules(limits: Limits) -> list[Rule]:
    """All rules in force."""
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
    """The rules of the tables of a list, numbered from 1."""
    return [
        Rule(f"{name}[{number}].{key.name}", key.meaning, value, value == key.default)
        for number, table in enumerate(tables, 1)
        for key in keys_of(type(table)).values()
        if (value := getattr(table, key.attribute)) is not None
    ]


def read_limits(path: Path | None) -> Limits:
    """The limits in a file; the defaults where there is none. Raises `LimitsError` with every problem and its line."""
    if path is None:
        return Limits()
    table = tables.read(path, Limits, LimitsError)
    table.raise_problems()
    limits: Limits = table.entry()
    return limits

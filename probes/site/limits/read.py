"""Reads limits.toml, and lists the rules with their meaning for people.

In: the path of the file. Out: `Limits`, or `LimitsError` with every mistake and its line.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from probes import toml_lines
from probes.site.limits.hours import check_hours
from probes.site.limits.limits import Limits
from probes.site.limits.networks import check_network
from probes.toml_lines import Node, suggestion


class LimitsError(Exception):
    """The limits file cannot be used; says where and why. The agent does not start without the limits it was given."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A key of the file with its meaning and the value in force."""

    name: str
    meaning: str
    value: object
    is_default: bool


def rules(limits: Limits) -> list[Rule]:
    """All rules as they hold."""
    listed = []
    for section in Limits.__struct_fields__:
        for key, hint in _hints(section).items():
            value = getattr(getattr(limits, section), key)
            default = getattr(getattr(Limits(), section), key)
            meta = hint.__metadata__[-1]
            listed.append(Rule(f"{section}.{key}", meta.description, value, value == default))
    return listed


def read_limits(path: Path | None) -> Limits:
    """The limits in a file; the defaults where there is none. Raises `LimitsError` with every mistake and its line."""
    if path is None:
        return Limits()
    try:
        root = toml_lines.parse(path.read_text())
    except toml_lines.TomlSyntaxError as error:
        raise LimitsError(f"{path}:{error.line}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise LimitsError(f"{path}: {error}") from error
    sections: dict[str, dict[str, Any]] = {}
    wrong: list[tuple[int, str]] = []
    for section, table in root.value.items():
        if section not in Limits.__struct_fields__ or not isinstance(table.value, dict):
            tables = ", ".join(f"[{name}]" for name in Limits.__struct_fields__)
            likely = suggestion(section, Limits.__struct_fields__)
            wrong.append((table.line, f'unknown table "{section}"{likely}; there are {tables}'))
            continue
        sections[section] = {key: _value(section, key, node, wrong) for key, node in table.value.items()}
    if wrong:
        raise LimitsError("\n".join(f"{path}:{line}: {message}" for line, message in sorted(wrong)))
    return msgspec.convert(sections, type=Limits)


def _value(section: str, key: str, node: Node, wrong: list[tuple[int, str]]) -> object:
    """The value of a key as in the file; mistakes are appended to `wrong`."""
    hints = _hints(section)
    if key not in hints:
        likely = suggestion(key, hints)
        wrong.append((node.line, f'unknown key "{key}" in [{section}]{likely}; it takes {", ".join(hints)}'))
        return None
    plain = _plain(node)
    try:
        checked = msgspec.convert(plain, type=hints[key])
        if isinstance(checked, tuple):
            for item in checked:
                check_hours(item) if key == "hours" else check_network(item, is_allowed=key == "allowed")
        if key == "folder" and checked and not Path(checked).is_absolute():
            raise ValueError(f"{checked!r} is not an absolute path")
    except ValueError as error:  # msgspec.ValidationError is a ValueError
        example = hints[key].__metadata__[-1].examples[0]
        wrong.append((node.line, f"{section}.{key}: {error}; write for example {key} = {toml(example)}"))
    return plain


def _plain(node: Node) -> object:
    if isinstance(node.value, list):
        return [_plain(item) for item in node.value]
    return node.value


def toml(value: object) -> str:
    """A value as it is written in the file."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(toml(item) for item in value)}]"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"


@lru_cache
def _hints(section: str) -> dict[str, Any]:
    """The keys of a section with their types."""
    return get_type_hints(type(getattr(Limits(), section)), include_extras=True)

"""Parse the keys of a TOML table with types and limits, collecting all problems.

A `Fields` is made for a table; each getter returns the value, or records a problem with its line and returns the
default. `document` has the tables and keys.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, time
from typing import Any, TypeVar

from probes.toml_lines import Node, suggestion

T = TypeVar("T")

_TYPE_NAMES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "a text"),
    (list, "a list"),
    (dict, "a table"),
    ((date, time), "a date or time"),
)


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A problem of the file: its line, and a one-line message with the fix. Line 0 means the whole file."""

    line: int
    message: str


def type_name(value: object) -> str:
    return next(name for kind, name in _TYPE_NAMES if isinstance(value, kind))


class Fields:
    """A TOML table. `label` names it in messages: `site "slac"`. A subclass may record the keys: docs/reference."""

    def __init__(self, node: Node, label: str, problems: list[Problem]) -> None:
        self.line = node.line
        self.label = label
        self.sound = True
        self._nodes: dict[str, Node] = node.value
        self._asked: list[str] = []
        self._problems = problems

    def problem(self, message: str, key: str | None = None, line: int | None = None) -> None:
        """Record a problem at `line`, else at the line of `key`, else at the line of the table."""
        self.sound = False
        self._problems.append(Problem(self.line_of(key) if line is None else line, f"{self.label}: {message}"))

    def line_of(self, key: str | None) -> int:
        """Line of `key`; of the table where the key is not set."""
        return self._nodes[key].line if key is not None and key in self._nodes else self.line

    def has(self, key: str) -> bool:
        return key in self._nodes

    def finish(self) -> None:
        """Report every key that was not read as unknown."""
        for key, node in self._nodes.items():
            if key not in self._asked:
                self.problem(
                    f'unknown key "{key}"{suggestion(key, self._asked)}; it takes {", ".join(self._asked)}',
                    line=node.line,
                )

    def text(self, key: str, *, default: str | None = None, example: str = "") -> str:
        """A non-empty text. Required without a default; `example` shows the fix."""
        value = self._typed(key, str, "a text in double quotes", example if default is None else None)
        if value is not None and not value.strip():
            self.problem(f"{key} is empty; write a text or leave the line out", key)
            value = None
        return value if value is not None else default or ""

    def one_of(self, key: str, value: str, choices: Collection[str], line: int | None = None) -> bool:
        """Whether a value is among the choices; else records a problem."""
        if value in choices:
            return True
        allowed = " or ".join(f'"{choice}"' for choice in choices)
        self.problem(f'{key}: "{value}" is not known; write {allowed}', key, line)
        return False

    def flag(self, key: str, *, default: bool) -> bool:
        value = self._typed(key, bool, "true or false")
        return default if value is None else value

    def integer(self, key: str, *, low: int, high: int, default: int | None = None, example: str = "") -> int:
        """An integer from `low` to `high`. Required without a default; `low` where it is invalid."""
        required = example if default is None else None
        value = self._typed(key, int, f"a whole number from {low} to {high}", required)
        return int(self._within(key, value, default, low, high))

    def number(self, key: str, *, low: float, high: float, default: float | None = None, example: str = "") -> float:
        """A number from `low` to `high`, as `integer`."""
        required = example if default is None else None
        value = self._typed(key, (int, float), f"a number from {low:g} to {high:g}", required)
        within = self._within(key, value, default, low, high)
        # An integer too large for a float is out of range, which has been reported.
        return float(within) if abs(within) <= sys.float_info.max else math.inf

    def texts(self, key: str, *, default: tuple[str, ...] | None = None, example: str = "") -> dict[str, int]:
        """A non-empty list of distinct texts, each with its line. Required without a default."""
        return self._elements(key, str, "a text in double quotes", default, example)

    def integers(self, key: str, *, low: int, high: int, default: tuple[int, ...]) -> tuple[int, ...]:
        """A list of distinct integers, each from `low` to `high`."""
        elements = self._elements(key, int, "a whole number", default, "")
        for value, line in elements.items():
            if not low <= value <= high:
                self.problem(f"{key}: {value} is out of range; write {low} to {high}", line=line)
        return tuple(elements)

    def table(self, key: str, label: str) -> Fields | None:
        """The table `[key]`, or None."""
        value = self._typed(key, dict, f"a table, [{key}]")
        return None if value is None else type(self)(self._nodes[key], label, self._problems)

    def tables(self, key: str, label: str, header: str) -> list[Fields]:
        """The tables `[[key]]` in order; `header` is their full name."""
        elements = self._typed(key, list, f"a table for each, headed [[{header}]]")
        tables = []
        for node in elements or ():
            if isinstance(node.value, dict):
                tables.append(type(self)(node, label, self._problems))
            else:
                self.problem(f"{key} must be tables; head each with [[{header}]]", line=node.line)
        return tables

    def _typed(self, key: str, kind: type | tuple[type, ...], wanted: str, required: str | None = None) -> Any:
        """Value of `key` if set and of the right type. `required` is the example for a missing key."""
        self._asked.append(key)
        if key not in self._nodes:
            if required is not None:
                self.problem(f"{key} is missing; write {key} = {required}")
            return None
        value = self._nodes[key].value
        if not _is(value, kind):
            self.problem(f"{key} must be {wanted}, not {type_name(value)}", key)
            return None
        return value

    def _within(self, key: str, value: float | None, default: float | None, low: float, high: float) -> float:
        if value is None:
            return low if default is None else default
        if not low <= value <= high:
            self.problem(f"{key} = {value} is out of range; write {low:g} to {high:g}", key)
        return value

    def _elements(
        self, key: str, kind: type[T], wanted: str, default: tuple[T, ...] | None, example: str
    ) -> dict[T, int]:
        nodes = self._typed(key, list, "a list, [ … ]", example if default is None else None)
        if nodes is None:
            return dict.fromkeys(default or (), self.line)
        if not nodes:
            self.problem(f"{key} is empty; write at least one in it", key)
        elements: dict[T, int] = {}
        for node in nodes:
            self._element(key, node, kind, wanted, elements)
        return elements

    def _element(self, key: str, node: Node, kind: type[T], wanted: str, elements: dict[T, int]) -> None:
        if not _is(node.value, kind):
            self.problem(f"{key}: each must be {wanted}, not {type_name(node.value)}", line=node.line)
        elif node.value in elements:
            self.problem(f"{key}: {_quoted(node.value)} is there twice; take one out", line=node.line)
        else:
            elements[node.value] = node.line


def _quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _is(value: object, kind: type | tuple[type, ...]) -> bool:
    """isinstance, except that booleans are not numbers."""
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def quoted(names: Collection[str]) -> str:
    """Names in quotes as alternatives: `"a", "b" or "c"`."""
    *others, last = [f'"{name}"' for name in names]
    return f"{', '.join(others)} or {last}" if others else last

"""Decode the tables of a TOML file by structs that declare their keys, collecting all problems."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from probes.free_text import cleaned
from probes.toml import lines
from probes.toml.keys import InvalidValue, Key, keys_of, lists_of_tables, tag_key, to_short_toml, to_toml
from probes.toml.lines import DeclaredTwice, Place, TomlSyntaxError, closest_match


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of the file, with the fix."""

    line: int  # 0 for the whole file
    message: str


class FileError(Exception):
    """Invalid file. Its text has a line for each problem: `file:line: problem, and the fix`."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self.file = file
        self.problems = tuple(problems)
        super().__init__("\n".join(self.lines))

    @property
    def lines(self) -> list[str]:
        # A key of the file, which may hold anything, is in the message.
        told = [(f":{p.line}" if p.line else "", cleaned(p.message)) for p in self.problems]
        return [f"{self.file}{line}: {message}" for line, message in told]


def read(path: Path | str, struct: type[msgspec.Struct], error: type[FileError]) -> Table:
    """Decode the file at `path`. Raises `error` if it cannot be read or is not TOML."""
    try:
        content = Path(path).read_bytes()
    except OSError as cause:
        message = f"cannot be read: {cause.strerror}; give the path of a file that you may read"
        raise error(str(path), [Problem(0, message)]) from cause
    return parse(content, str(path), struct, error)


def parse(content: bytes, file: str, struct: type[msgspec.Struct], error: type[FileError]) -> Table:
    """Decode `content`; `file` is its name in errors. Raises `error` if it is not TOML."""
    source = _File(content, file, struct, error)
    return Table(source, (struct,), source.data)


class _File:
    """A file, and its problems: table, message, place, predecessor."""

    def __init__(self, content: bytes, name: str, struct: type[msgspec.Struct], error: type[FileError]) -> None:
        self._name, self._error = name, error
        self.problems: list[tuple[Table, str, Place, Place]] = []
        # Editors of Windows begin UTF-8 with a byte order mark too.
        content = content.removeprefix(codecs.BOM_UTF8)
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content[:2]:
            raise error(name, [Problem(1, "this is UTF-16; save the file as UTF-8 text")])
        try:
            self._text = content.decode()
            self.data = lines.parse(self._text)
        except UnicodeDecodeError as cause:
            line = content[: cause.start].count(b"\n") + 1
            raise error(name, [Problem(line, "this is not UTF-8; save the file as UTF-8 text")]) from cause
        except DeclaredTwice as cause:
            lists = set(lists_of_tables((struct,)))
            headers = [(line, place) for line, place in lines.table_headers(self._text) if place in lists]
            problems = [Problem(line, _needs_list(place)) for line, place in headers]
            raise error(name, problems or [Problem(cause.line, str(cause))]) from cause
        except TomlSyntaxError as cause:
            raise error(name, [Problem(cause.line, str(cause))]) from cause

    @cached_property
    def lines(self) -> dict[Place, int]:
        try:
            return lines.find_lines(self._text)
        except TomlSyntaxError as cause:
            raise self._error(self._name, [Problem(cause.line, str(cause))]) from cause

    def raise_problems(self) -> None:
        if self.problems:
            ordered = sorted(self.problems, key=lambda problem: self.lines[problem[3]])
            labelled = ((f"{table.label}: " if table.label else "", text, place) for table, text, place, _ in ordered)
            problems = [Problem(self.lines[place], f"{label}{text}") for label, text, place in labelled]
            raise self._error(self._name, list(dict.fromkeys(problems)))


class Table:
    def __init__(
        self,
        file: _File,
        variants: tuple[type[msgspec.Struct], ...],
        data: dict[str, Any],
        place: Place = (),
        parent: Table | None = None,
    ) -> None:
        self._file, self._data, self._place, self._parent = file, data, place, parent
        # Valid keys; elements of lists by index.
        self.values: dict[str, Any] = {}
        self.elements: dict[str, dict[int, Any]] = {}
        self._tables: dict[str, list[Table]] = {}
        self.is_valid = True
        self._struct, self._keys = self._choose(variants)
        self._is_named = bool(place) and isinstance(place[-1], int) and "name" in self._keys
        name = data.get("name")
        # For messages: `site "slac"`.
        self.name = name if self._is_named and isinstance(name, str) and name.strip() else ""
        misspelt = self._report_unknown_keys()
        for key in self._keys.values():
            if key.name in data:
                self._read(key)
            elif key.is_required and key.name not in misspelt.values():
                self._report_missing(key, after=next(reversed(misspelt), None))

    def problem(
        self, message: str, key: str | None = None, index: int | None = None, *, after: str | None = None
    ) -> None:
        """Record a problem at the line of `key`, an element, or the table."""
        self.is_valid = False
        place = self._place_of(key, index)
        self._file.problems.append((self, message, place, place if after is None else self._place_of(after)))

    def line_of(self, key: str) -> int:
        """Line of `key`; of the table if it is not set."""
        return self._file.lines[self._place_of(key)]

    def raise_problems(self) -> None:
        """Raise the error of the file if it has problems."""
        self._file.raise_problems()

    def has(self, key: str) -> bool:
        return key in self._data

    def get(self, key: str) -> Any:
        """Value of a key: its default where it is not set, None where it is invalid."""
        return self.values.get(key) if self.has(key) else self._keys[key].default

    def table(self, key: str) -> Table | None:
        return next(iter(self.tables(key)), None)

    def tables(self, key: str) -> list[Table]:
        return self._tables.get(key, [])

    def entry(self) -> Any:
        """The table as its struct; None if it or a table in it has a problem."""
        below = {key: [table.entry() for table in tables] for key, tables in self._tables.items()}
        if not self.is_valid or self._struct is None or any(None in entries for entries in below.values()):
            return None
        entries = {key: tuple(each) if self._keys[key].is_list else each[0] for key, each in below.items()}
        fields = {self._keys[key].attribute: value for key, value in (self.values | entries).items()}
        # The tag of a struct is not a field of it.
        return self._struct(**{name: value for name, value in fields.items() if name})

    def settings(self) -> dict[str, Any]:
        """The set keys, including inner tables, as plain lists and dicts."""
        values = {key: list(value) if isinstance(value, tuple) else value for key, value in self.values.items()}
        for key, tables in self._tables.items():
            if tables:
                below = [table.settings() for table in tables]
                values[key] = below if self._keys[key].is_list else below[0]
        return values

    @property
    def label(self) -> str:
        if not self._is_named or self._parent is None:
            return _header(self._place)
        own = str(self._place[-2]) + (f" {to_toml(self.name)}" if self.name else "")
        return f"{self._parent.label}: {own}" if self._parent.label else own

    def _choose(self, variants: tuple[type[msgspec.Struct], ...]) -> tuple[type[msgspec.Struct] | None, dict[str, Key]]:
        tag = tag_key(variants)
        if tag is None:
            return variants[0], keys_of(variants[0])
        by_tag = {struct.__struct_config__.tag: struct for struct in variants}
        value = self._data.get(tag.name)
        struct = by_tag.get(value) if isinstance(value, str) else None
        keys, *others = (keys_of(variant) for variant in ([struct] if struct is not None else variants))
        shared = {name: key for name, key in keys.items() if all(other.get(name) == key for other in others)}
        return struct, {tag.name: tag} | shared

    def _report_unknown_keys(self) -> dict[str, str]:
        """Report unknown keys; returns them with the likely key, or empty."""
        if self._struct is None:
            return {}
        unknown = {key: closest_match(key, self._keys) for key in self._data if key not in self._keys}
        for key, meant in unknown.items():
            is_table = isinstance(self._data[key], dict)
            name = f"table {_header((*self._place, key))}" if is_table else f"key {to_toml(key)}"
            hint = f' (did you mean "{meant}"?)' if meant else ""
            self.problem(f"unknown {name}{hint}; it takes {', '.join(self._keys)}", key)
        return unknown

    def _report_missing(self, key: Key, after: str | None) -> None:
        if key.tables:
            header = _header((*self._place, key.name, *((0,) if key.is_list else ())))
            self.problem(f"{header} is missing; add {key.example}", after=after)
        else:
            self.problem(f"{key.name} is missing; write {key.name} = {key.example}", after=after)

    def _read(self, key: Key) -> None:
        value = self._data[key.name]
        if key.tables:
            self._read_tables(key, value)
            return
        if key.item is not None and isinstance(value, list):
            elements = self._read_elements(key, key.item, value)
            if len(elements) < len(value):
                self.values[key.name] = tuple(elements.values())
                return
        decoded = self._decode(key, value)
        if decoded is not None:
            self.values[key.name] = decoded

    def _read_tables(self, key: Key, value: object) -> None:
        place = (*self._place, key.name)
        header = _header((*place, 0) if key.is_list else place)
        if key.is_list and isinstance(value, dict):
            self.problem(_needs_list(place), key.name)
            return
        if not isinstance(value, list if key.is_list else dict):
            needed = f"a table for each, headed {header}" if key.is_list else f"a table, {header}"
            self.problem(f"{key.name} must be {needed}, not {to_short_toml(value)}", key.name)
            return
        tables = self._tables[key.name] = []
        for index, data in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(data, dict):
                below = place if index is None else (*place, index)
                tables.append(Table(self._file, key.tables, data, below, self))
            else:
                self.problem(f"{key.name} must be tables; head each with {header}", key.name, index)

    def _read_elements(self, key: Key, item: Key, value: list[Any]) -> dict[int, Any]:
        elements: dict[int, Any] = {}
        distinct: set[object] = set()
        for index, element in enumerate(value):
            decoded = self._decode(item, element, index)
            if key.is_distinct and decoded in distinct:
                self.problem(f"{key.name}: {to_toml(decoded)} is listed twice; remove one", key.name, index)
            elif decoded is not None:
                elements[index] = decoded
                distinct.add(decoded)
        self.elements[key.name] = elements
        return elements

    def _decode(self, key: Key, value: object, index: int | None = None) -> Any:
        """Decode a value; None, and a problem, if it is invalid."""
        try:
            return key.decode(value)
        except InvalidValue as error:
            self.problem(str(error), key.name, index)
            return None

    def _place_of(self, key: str | None, index: int | None = None) -> Place:
        if key is None or key not in self._data:
            return self._place
        return (*self._place, key) if index is None else (*self._place, key, index)


def _needs_list(place: Place) -> str:
    return f"{_header(place)} is one table; write {_header((*place, 0))}"


def _header(place: Place) -> str:
    name = ".".join(part for part in place if isinstance(part, str))
    if not place:
        return ""
    return f"[[{name}]]" if isinstance(place[-1], int) else f"[{name}]"

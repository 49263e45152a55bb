"""Load and run the archive's SQL, a file per statement in sql/ folders, with unique names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from django.db import connection

FOLDER = Path(__file__).resolve().parent
LONGEST_RAW = timedelta(days=1)

Record = TypeVar("Record")
Names = tuple[str, ...]
Rows = list[tuple[Any, ...]]


@cache
def statement(name: str, **parts: str) -> str:
    """Text of `name`.sql; each {name} in it is replaced by that part."""
    text = files()[name].read_text()
    return text.format(**parts) if parts else text


@cache
def files() -> dict[str, Path]:
    """SQL files by name. Raises `ValueError` for duplicate names."""
    by_name: dict[str, Path] = {}
    for file in sorted(FOLDER.glob("*/sql/*.sql")):
        if file.stem in by_name:
            raise ValueError(f"{file} and {by_name[file.stem]} have the same name")
        by_name[file.stem] = file
    return by_name


def run_statement(name: str, parts: Mapping[str, str] | None = None, /, **parameters: Any) -> tuple[Names, Rows]:
    return run_text(statement(name, **(parts or {})), parameters)


def run_text(text: str, parameters: Mapping[str, Any]) -> tuple[Names, Rows]:
    with connection.cursor() as cursor:
        cursor.execute(text, parameters)
        return tuple(column.name for column in cursor.description), cursor.fetchall()


def records(kind: type[Record], names: Names, rows: Rows) -> list[Record]:
    """Convert rows to records; columns must equal the record's fields, in order."""
    expected = tuple(field.name for field in fields(kind))  # type: ignore[arg-type]
    if names != expected:
        raise TypeError(f"{kind.__name__} has the fields {expected}, the statement returned {names}")
    return [kind(*row) for row in rows]


def columns(kind: type) -> dict[str, str]:
    """A record's fields, for {columns} of a statement."""
    return {"columns": ", ".join(field.name for field in fields(kind))}


def select(kind: type[Record], name: str, /, **parameters: Any) -> list[Record]:
    """Run a statement on a record's {columns}; return records."""
    return records(kind, *run_statement(name, columns(kind), **parameters))


def optional_list(numbers: Sequence[int] | None) -> list[int] | None:
    """Convert for an array parameter; None stays null."""
    return None if numbers is None else list(numbers)


def check_period(since: datetime, until: datetime) -> None:
    """Raise `ValueError` for times without a zone, or a reversed period."""
    if since.tzinfo is None or until.tzinfo is None:
        raise ValueError("a period needs times with a time zone")
    if since > until:
        raise ValueError(f"the period ends, {until.isoformat()}, before it begins, {since.isoformat()}")


def check_raw_period(since: datetime, until: datetime) -> None:
    """As `check_period`; raises also for more than a day."""
    check_period(since, until)
    if until - since > LONGEST_RAW:
        raise ValueError(f"a period of {until - since} would scan raw bursts for more than a day")

"""CSV of records, for the downloads of pages and API.

In: column names and rows. Out: text. None is empty, a time is ISO 8601 in UTC, a flag is true or false, a list has
semicolons, an outcome is in the words of the pages, and no text begins like a spreadsheet formula.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from io import StringIO
from typing import Any

from monitor.archive.outcomes import outcome_words


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A line for the columns and for each row."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(_cell(column, value) for column, value in zip(columns, row, strict=True))
    return out.getvalue()


def names_of(kind: type[Any]) -> list[str]:
    """The fields of a record, as columns."""
    return [field.name for field in fields(kind)]


def values_of(record: Any) -> list[Any]:
    """The values of a record, in the order of its columns."""
    return [getattr(record, field.name) for field in fields(record)]


def _cell(column: str, value: Any) -> object:
    if value is not None and column == "outcome":
        value = outcome_words(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, list):
        return ";".join("" if item is None else str(item) for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value

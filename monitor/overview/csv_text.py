"""CSV of records for the downloads of pages and API. None is empty, times are ISO 8601 in UTC, lists have semicolons,
and no text begins like a spreadsheet formula."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from io import StringIO
from typing import Any

from monitor.archive.outcomes import outcome_words


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(_cell(column, value) for column, value in zip(columns, row, strict=True))
    return out.getvalue()


def names_of(kind: type[Any]) -> list[str]:
    return [field.name for field in fields(kind)]


def values_of(record: Any) -> list[Any]:
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

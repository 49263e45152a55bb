"""Contents of a file of address ranges, and loading faults."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from monitor.routes.tables.address_table import AddressTable


class FileFault(Exception):
    """Why a file cannot be loaded, with the fix and the line, if known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        self.message, self.line = message, line
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class TableContents:
    table: AddressTable
    source: str
    licence: str
    dated_at: datetime | None  # date of the data; None if the file has none


def date_of(seconds: Any) -> datetime | None:
    """Time from seconds since 1970; None if invalid."""
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds else None
    except (TypeError, ValueError, OverflowError, OSError):
        return None

"""Contents of a file of address ranges, and the fault that prevents its loading."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from monitor.routes.tables.address_table import AddressTable


class FileFault(Exception):
    """Reason why a file cannot be loaded, and the fix, with its line where there is one."""

    def __init__(self, message: str, line: int | None = None) -> None:
        self.message, self.line = message, line
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class TableContents:
    """A table with its origin. `dated_at` is the date of the data, None if the file has none."""

    table: AddressTable
    source: str
    licence: str
    dated_at: datetime | None


def date_of(seconds: Any) -> datetime | None:
    """Time from seconds since 1970, as a file has it; None if it has none that is valid."""
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds else None
    except (TypeError, ValueError, OverflowError, OSError):
        return None
